/// Who must be there before the hardware uses a key. Stands where `SecAccessControl` stands on iOS.
///
/// The policy is fixed when the key is born and enforced by the hardware. A keystore that can't enforce a policy
/// refuses it with `unsupported`; it never weakens one.
public struct AccessPolicy: Hashable, Sendable, Codable {
    /// What must be shown.
    public enum Requirement: String, Sendable, Codable, CaseIterable {
        /// Nobody need be there: the key is bound to the device only.
        case none
        /// The PIN.
        case pin
        /// A finger or the PIN (`kSecAccessControlUserPresence`).
        case userPresence = "user-presence"
        /// A finger; it survives changes of the enrolled fingers (`kSecAccessControlBiometryAny`).
        case biometryAny = "biometry-any"
        /// A finger; it dies when the enrolled fingers change (`kSecAccessControlBiometryCurrentSet`).
        case biometryCurrentSet = "biometry-current-set"
    }

    /// What must be shown.
    public let requirement: Requirement
    /// For how many seconds one proof serves, 0 to 300. 0 asks for a proof at each use. Inside that time a use asks nobody,
    /// unless its ``PresenceAuthority`` takes no earlier proof; ``Keystore/endReuse()`` ends it.
    ///
    /// On a TPM the earlier proof is a ticket that crosses the bus in the clear, and serves all keys of the same policy.
    /// A key also demands 32 random bytes that are stored with it, so the ticket alone is useless to an attacker on the bus.
    /// A same-user process that has the stored key and the ticket can sign inside that time. Keys that were
    /// made before Latchkey added those bytes accept the ticket alone: make them again where the bus is not trusted.
    public let reuseSeconds: Int
    /// After how many wrong proofs the key itself is shut, or nil for the hardware's own limit.
    public let attemptLimit: Int?

    /// - Returns: nil when `reuseSeconds` is outside 0...300, `attemptLimit` outside 1...32, or either is set on a
    ///   policy that asks for nothing.
    public init?(_ requirement: Requirement, reuseSeconds: Int = 0, attemptLimit: Int? = nil) {
        guard (0...300).contains(reuseSeconds), attemptLimit.map({ (1...32).contains($0) }) ?? true else { return nil }
        guard requirement != .none || (reuseSeconds == 0 && attemptLimit == nil) else { return nil }
        self.init(unchecked: requirement, reuseSeconds: reuseSeconds, attemptLimit: attemptLimit)
    }

    /// Bound to this device; usable without anybody present.
    public static let none = AccessPolicy(unchecked: .none)
    /// The PIN at each use.
    public static let pin = AccessPolicy(unchecked: .pin)
    /// A finger or the PIN at each use.
    public static let userPresence = AccessPolicy(unchecked: .userPresence)
    /// A finger at each use.
    public static let biometryAny = AccessPolicy(unchecked: .biometryAny)
    /// A finger of the set enrolled now, at each use.
    public static let biometryCurrentSet = AccessPolicy(unchecked: .biometryCurrentSet)

    /// Whether hardware that enforces `other` keeps all that this policy promises: the same policy does, and where this
    /// one asks for nobody, every one.
    package func isMet(by other: AccessPolicy) -> Bool {
        self == other || requirement == .none
    }

    private init(unchecked requirement: Requirement, reuseSeconds: Int = 0, attemptLimit: Int? = nil) {
        self.requirement = requirement
        self.reuseSeconds = reuseSeconds
        self.attemptLimit = attemptLimit
    }

    private enum CodingKeys: String, CodingKey {
        case requirement, reuseSeconds, attemptLimit
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        guard
            let policy = AccessPolicy(
                try container.decode(Requirement.self, forKey: .requirement),
                reuseSeconds: try container.decodeIfPresent(Int.self, forKey: .reuseSeconds) ?? 0,
                attemptLimit: try container.decodeIfPresent(Int.self, forKey: .attemptLimit))
        else {
            throw DecodingError.dataCorruptedError(
                forKey: .requirement, in: container, debugDescription: "an access policy out of its bounds")
        }
        self = policy
    }
}

extension AccessPolicy: CustomStringConvertible {
    /// The requirement's name as the command line spells it, for example `user-presence`.
    public var description: String { requirement.rawValue }
}
