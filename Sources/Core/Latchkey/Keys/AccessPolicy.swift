/// The user verification that the hardware requires before it uses a key, like `SecAccessControl`
/// on iOS.
///
/// A policy is fixed when the key is created, and the hardware enforces it. A keystore refuses a
/// policy that it cannot enforce with `unsupported`; it never uses a weaker one.
public struct AccessPolicy: Hashable, Sendable, Codable {
    /// The kind of user verification.
    public enum Requirement: String, Sendable, Codable, CaseIterable {
        /// No user verification: the key is only bound to the device.
        case none
        /// The PIN.
        case pin
        /// A fingerprint or the PIN (`kSecAccessControlUserPresence`).
        case userPresence = "user-presence"
        /// A fingerprint, also one that is enrolled later (`kSecAccessControlBiometryAny`).
        case biometryAny = "biometry-any"
        /// A fingerprint; the key is lost if the enrolled fingerprints change
        /// (`kSecAccessControlBiometryCurrentSet`).
        case biometryCurrentSet = "biometry-current-set"
    }

    /// The kind of user verification.
    public let requirement: Requirement
    /// The number of seconds for which one proof can be used again, 0 to 300. 0 requires a proof
    /// for each use. Within this time a use does not prompt, unless its ``PresenceAuthority``
    /// accepts no earlier proof; ``Keystore/endReuse()`` ends it.
    ///
    /// On a TPM the earlier proof is a ticket that crosses the bus in the clear, and serves all
    /// keys of the same policy. A key also demands 32 random bytes that are stored with it, so the
    /// ticket alone is useless to an attacker on the bus. A same-user process that has the stored
    /// key and the ticket can sign within this time. Keys that were created before Latchkey added
    /// those bytes accept the ticket alone: create them again if the bus is not trusted.
    public let reuseSeconds: Int
    /// The number of wrong proofs after which the key is locked, or nil for the hardware's own
    /// limit.
    public let attemptLimit: Int?

    /// - Returns: nil if `reuseSeconds` is outside 0...300, `attemptLimit` is outside 1...32, or
    ///   either is set for a policy without user verification.
    public init?(_ requirement: Requirement, reuseSeconds: Int = 0, attemptLimit: Int? = nil) {
        guard (0...300).contains(reuseSeconds), attemptLimit.map({ (1...32).contains($0) }) ?? true
        else { return nil }
        guard requirement != .none || (reuseSeconds == 0 && attemptLimit == nil) else { return nil }
        self.init(unchecked: requirement, reuseSeconds: reuseSeconds, attemptLimit: attemptLimit)
    }

    /// Bound to this device, without user verification.
    public static let none = AccessPolicy(unchecked: .none)
    /// The PIN for each use.
    public static let pin = AccessPolicy(unchecked: .pin)
    /// A fingerprint or the PIN for each use.
    public static let userPresence = AccessPolicy(unchecked: .userPresence)
    /// A fingerprint for each use.
    public static let biometryAny = AccessPolicy(unchecked: .biometryAny)
    /// One of the fingerprints enrolled now, for each use.
    public static let biometryCurrentSet = AccessPolicy(unchecked: .biometryCurrentSet)

    /// Whether hardware that enforces `other` keeps all promises of this policy: `other` is the
    /// same policy, or this policy requires no user verification.
    package func isMet(by other: AccessPolicy) -> Bool {
        self == other || requirement == .none
    }

    private init(
        unchecked requirement: Requirement, reuseSeconds: Int = 0, attemptLimit: Int? = nil
    ) {
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
                forKey: .requirement, in: container,
                debugDescription: "a value of the access policy is out of range")
        }
        self = policy
    }
}

extension AccessPolicy: CustomStringConvertible {
    /// The name of the requirement on the command line, for example `user-presence`.
    public var description: String { requirement.rawValue }
}

extension AccessPolicy {
    /// Whether the PIN is one of the ways to satisfy the policy.
    package var hasPIN: Bool {
        switch requirement {
        case .pin, .userPresence: true
        case .none, .biometryAny, .biometryCurrentSet: false
        }
    }

    /// Whether fingerprints that are enrolled later do not satisfy the policy.
    package var isBoundToFingers: Bool {
        switch requirement {
        case .biometryCurrentSet: true
        case .none, .pin, .userPresence, .biometryAny: false
        }
    }

    /// Whether a fingerprint is one of the ways to satisfy the policy.
    package var hasFinger: Bool {
        switch requirement {
        case .userPresence, .biometryAny, .biometryCurrentSet: true
        case .none, .pin: false
        }
    }
}
