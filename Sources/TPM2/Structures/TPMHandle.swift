/// The number by which a TPM knows something, `TPM_HANDLE` (TPM 2.0 Part 2 section 7). Its top byte says what it is.
public struct TPMHandle: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Nothing (`TPM_RH_NULL`).
    public static let null = TPMHandle(rawValue: 0x4000_0007)
    /// The password session (`TPM_RS_PW`).
    public static let passwordSession = TPMHandle(rawValue: 0x4000_0009)
    /// Where the TCG's guidance puts the shared storage root key (TCG TPM v2.0 Provisioning Guidance section 7.8).
    public static let storageRootKey = TPMHandle(rawValue: 0x8100_0001)
    /// The first of the persistent handles.
    public static let persistentFirst = TPMHandle(rawValue: 0x8100_0000)
    /// The first of the transient handles.
    public static let transientFirst = TPMHandle(rawValue: 0x8000_0000)
    /// The first of the handles that `GetCapability` lists for loaded sessions.
    public static let loadedSessionFirst = TPMHandle(rawValue: 0x0200_0000)

    /// What the top byte says (Part 2 section 7.2).
    public enum Kind: Hashable, Sendable {
        /// A platform configuration register.
        case pcr
        /// An NV index.
        case nvIndex
        /// An HMAC session.
        case hmacSession
        /// A policy session.
        case policySession
        /// A hierarchy, or another thing that is always there.
        case permanent
        /// An object that is gone with the next reset.
        case transient
        /// An object that stays.
        case persistent
        /// None of these.
        case other
    }

    /// What the top byte says.
    public var kind: Kind {
        switch rawValue >> 24 {
        case 0x00: .pcr
        case 0x01: .nvIndex
        case 0x02: .hmacSession
        case 0x03: .policySession
        case 0x40: .permanent
        case 0x80: .transient
        case 0x81: .persistent
        default: .other
        }
    }
}

extension TPMHandle: CustomStringConvertible {
    public var description: String { "0x" + String(rawValue, radix: 16) }
}

extension TPMHandle: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) { rawValue = try reader.read() }
    public func marshal(into writer: inout TPMWriter) { writer.write(rawValue) }
}
