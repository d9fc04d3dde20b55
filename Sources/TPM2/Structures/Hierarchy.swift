/// A hierarchy or another permanent entity, `TPM_RH` (TPM 2.0 Part 2 section 7.4).
public struct Hierarchy: TPMEntity, Hashable, Sendable {
    public let handle: TPMHandle
    public var name: TPMName { TPMName(of: handle) }

    /// Whoever owns the machine (`TPM_RH_OWNER`).
    public static let owner = Hierarchy(handle: TPMHandle(rawValue: 0x4000_0001))
    /// A hierarchy that dies at the next reset (`TPM_RH_NULL`).
    public static let null = Hierarchy(handle: .null)
    /// Whoever may end a lockout (`TPM_RH_LOCKOUT`).
    public static let lockout = Hierarchy(handle: TPMHandle(rawValue: 0x4000_000a))
    /// Whoever vouches for the TPM (`TPM_RH_ENDORSEMENT`).
    public static let endorsement = Hierarchy(handle: TPMHandle(rawValue: 0x4000_000b))
    /// The firmware (`TPM_RH_PLATFORM`).
    public static let platform = Hierarchy(handle: TPMHandle(rawValue: 0x4000_000c))
}
