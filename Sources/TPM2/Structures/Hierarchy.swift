/// A hierarchy or another permanent entity, `TPM_RH` (TPM 2.0 Part 2 section 7.4).
public struct Hierarchy: TPMEntity, Hashable, Sendable {
    public let handle: TPMHandle
    public var name: TPMName { TPMName(of: handle) }

    public static let owner = Hierarchy(handle: TPMHandle(rawValue: 0x4000_0001))
    public static let null = Hierarchy(handle: .null)
    public static let lockout = Hierarchy(handle: TPMHandle(rawValue: 0x4000_000a))
    public static let endorsement = Hierarchy(handle: TPMHandle(rawValue: 0x4000_000b))
    public static let platform = Hierarchy(handle: TPMHandle(rawValue: 0x4000_000c))
}
