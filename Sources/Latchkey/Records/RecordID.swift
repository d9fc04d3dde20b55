/// The name of a record within its container: 1 to 128 bytes of UTF-8.
public struct RecordID: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }
    public init(stringLiteral value: String) { rawValue = value }
    /// The record that holds this key.
    public init(_ key: KeyID) { rawValue = key.rawValue }

    public var description: String { rawValue }
}
