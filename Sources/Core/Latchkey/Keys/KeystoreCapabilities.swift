public import FoundationEssentials

/// The properties of a keystore's hardware, and the policies that it can enforce.
public struct KeystoreCapabilities: Hashable, Sendable {
    /// The name of the hardware, for example `STM ST33HTPH firmware 1.258`.
    public var device: String
    /// The hardware that contains the keys.
    public var root: AssuranceLevel.Root
    /// The policies that the hardware can enforce for signing keys.
    public var requirements: Set<AccessPolicy.Requirement>
    /// The policies that the hardware can enforce for sealed secrets. A token can have sealing keys
    /// without user verification and no such signing keys, or the other way round.
    package var sealing: Set<AccessPolicy.Requirement>
    /// The policies of ``sealing`` under which the hardware can't seal in its present state, and
    /// the reasons.
    package var sealingRefusals: [AccessPolicy.Requirement: SealingRefusal]
    /// Whether the hardware has its own fingerprint reader. Other hardware needs a
    /// ``PresenceBroker``.
    package var readsFingers: Bool
    /// Whether ``Keystore/attest(_:challenge:)`` works.
    public var canAttest: Bool
    /// Whether ``RevokingKeystore/createRevocableKey(_:authorizedBy:willCreate:)`` and
    /// ``RevokingKeystore/sealRevocably(_:policy:for:authorizedBy:willCreate:)`` work: under the policy
    /// `none`, and under `pin` if no ``PresenceBroker`` manages the PIN.
    package var sealsRevocably: Bool

    /// - Parameter sealing: nil if it equals `requirements`.
    package init(
        device: String, root: AssuranceLevel.Root, requirements: Set<AccessPolicy.Requirement>,
        sealing: Set<AccessPolicy.Requirement>? = nil,
        sealingRefusals: [AccessPolicy.Requirement: SealingRefusal] = [:],
        readsFingers: Bool = false, canAttest: Bool,
        sealsRevocably: Bool = false
    ) {
        self.device = device
        self.root = root
        self.requirements = requirements
        self.sealing = sealing ?? requirements
        self.sealingRefusals = sealingRefusals
        self.readsFingers = readsFingers
        self.canAttest = canAttest
        self.sealsRevocably = sealsRevocably
    }

    /// Whether the hardware's own reader or the broker can read a fingerprint now.
    package func fingerState(through presence: any PresenceAuthority) async -> FingerState {
        if readsFingers { return .ready }
        guard let broker = presence.broker else {
            return .notAvailable("this program cannot prompt for a fingerprint")
        }
        return await broker.fingerState()
    }

    /// The use of a key.
    package enum Use: Sendable {
        case signing, sealing, signingAndSealing
    }

    /// The default policy of all facades: `userPresence` (fingerprint or PIN) if the hardware can
    /// enforce it, a fingerprint can be read now, and the user does not prefer the PIN; otherwise
    /// `pin`. For hardware that enforces `userPresence` but not `pin`, because it prompts itself,
    /// the default is `userPresence`.
    package func preferredPolicy(for use: Use, through presence: any PresenceAuthority) async
        -> AccessPolicy
    {
        let enforceable =
            switch use {
            case .signing: requirements
            case .sealing: sealing
            case .signingAndSealing: requirements.intersection(sealing)
            }
        guard enforceable.contains(.userPresence) else { return .pin }
        guard enforceable.contains(.pin) else { return .userPresence }
        guard presence.preference != .pin, await fingerState(through: presence) == .ready else {
            return .pin
        }
        return .userPresence
    }

    /// The weakest policy under which the hardware can seal, or nil if it cannot seal at all.
    package var leastSealing: AccessPolicy? {
        for policy in [AccessPolicy.none, .pin, .userPresence, .biometryAny, .biometryCurrentSet]
        where sealing.contains(policy.requirement) { return policy }
        return nil
    }
}

extension KeystoreCapabilities {
    /// The reason why hardware can't seal in its present state: a ``KeystoreError`` without the
    /// operation.
    package struct SealingRefusal: Hashable, Sendable {
        let code: CommonErrorCode
        let reason: String
        let recovery: Recovery

        package init(_ error: KeystoreError) {
            (code, reason, recovery) = (error.code, error.reason, error.recoveryAction)
        }
    }

    /// Throws the reason if the hardware can't seal under `policy` in its present state. Check it
    /// before the hardware creates another key for the same operation.
    package func checkSealing(under policy: AccessPolicy) throws(KeystoreError) {
        guard let refusal = sealingRefusals[policy.requirement] else { return }
        throw KeystoreError(code: refusal.code, reason: refusal.reason, recovery: refusal.recovery)
    }
}

extension Keystore {
    /// ``KeystoreCapabilities/preferredPolicy(for:through:)``. Queries the hardware only if there
    /// can be a reader.
    package func preferredPolicy(
        for use: KeystoreCapabilities.Use, through presence: any PresenceAuthority
    ) async -> AccessPolicy {
        guard mayHaveReader || (presence.broker != nil && presence.preference != .pin),
            let capabilities = try? await capabilities()
        else { return .pin }
        return await capabilities.preferredPolicy(for: use, through: presence)
    }
}

/// What a counter of wrong PINs protects.
public enum PINSubject: Sendable {
    /// Everything under the hardware's own counter.
    case hardware
    /// A key.
    case key(HardwareKey)
    /// A sealed secret.
    case secret(SealedSecret)
}

/// The state of a counter of wrong PINs.
public struct PINStatus: Hashable, Sendable {
    /// The number of wrong PINs before the lockout, or nil if unknown.
    public var attemptsLeft: Int?
    /// The maximum number of consecutive wrong PINs, or nil if unknown.
    public var attemptLimit: Int?
    /// Whether the hardware refuses every PIN now.
    public var isLockedOut: Bool
    /// The end of the lockout, or nil if unknown. The hardware counts only the time during which it
    /// has power: turning the machine off extends the lockout.
    public var lockedOutUntil: Date?
    /// The number of seconds after which the hardware restores one attempt, or nil if unknown. 0 if
    /// wrong PINs never lock it.
    public var recoverySeconds: Int?
    /// Whether the hardware reports that a wrong PIN was given since the last correct one. The
    /// number may be unknown.
    package var isCountLow = false

    package init(
        attemptsLeft: Int?, attemptLimit: Int?, isLockedOut: Bool, lockedOutUntil: Date? = nil,
        recoverySeconds: Int? = nil
    ) {
        self.attemptsLeft = attemptsLeft
        self.attemptLimit = attemptLimit
        self.isLockedOut = isLockedOut
        self.lockedOutUntil = lockedOutUntil
        self.recoverySeconds = recoverySeconds
    }
}
