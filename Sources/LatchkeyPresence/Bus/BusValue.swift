/// An argument of a D-Bus message, of the types that the presence broker and fprintd use.
package enum BusValue: Hashable, Sendable {
    case string(String)
    case objectPath(String)
    case bool(Bool)
    case int32(Int32)
    case uint32(UInt32)
    case uint64(UInt64)
    /// `ay`.
    case bytes([UInt8])
    /// `as`.
    case strings([String])
    /// `a{sv}`.
    case dictionary([String: BusValue])
    /// `v`.
    indirect case variant(BusValue)
    /// Something of another type, skipped.
    case other

    package var string: String? {
        switch self {
        case .string(let value), .objectPath(let value): value
        default: nil
        }
    }

    package var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    package var int32: Int32? { if case .int32(let value) = self { value } else { nil } }
    package var uint32: UInt32? { if case .uint32(let value) = self { value } else { nil } }
    package var uint64: UInt64? { if case .uint64(let value) = self { value } else { nil } }
    package var bytes: [UInt8]? { if case .bytes(let value) = self { value } else { nil } }
    package var strings: [String]? { if case .strings(let value) = self { value } else { nil } }
    package var dictionary: [String: BusValue]? { if case .dictionary(let value) = self { value } else { nil } }
}
