/// What a keystore's hardware is and what it can enforce.
public struct KeystoreCapabilities: Hashable, Sendable {
    /// The hardware in words, for example `STM ST33HTPH firmware 1.258`.
    public var device: String
    /// Where its keys live.
    public var root: AssuranceLevel.Root
    /// The policies that it can enforce for keys that sign.
    public var requirements: Set<AccessPolicy.Requirement>
    /// The policies under which it can seal. A token may have sealing keys that need nobody and no such signing keys,
    /// or the other way round.
    public var sealing: Set<AccessPolicy.Requirement>
    /// Whether the hardware looks at fingers itself, at a reader of its own. Elsewhere that takes a ``PresenceBroker``.
    public var readsFingers: Bool
    /// Whether ``Keystore/attest(_:challenge:)`` works.
    public var canAttest: Bool
    /// Whether ``Keystore/sealRevocably(_:policy:for:authorizedBy:announcing:)`` works, and
    /// ``Keystore/createRevocableKey(_:authorizedBy:announcing:)``: under the policies `none` and, where no
    /// ``PresenceBroker`` keeps the PIN, `pin`.
    public var sealsRevocably: Bool

    /// - Parameter sealing: nil when it is the same as `requirements`.
    public init(
        device: String, root: AssuranceLevel.Root, requirements: Set<AccessPolicy.Requirement>,
        sealing: Set<AccessPolicy.Requirement>? = nil, readsFingers: Bool = false, canAttest: Bool,
        sealsRevocably: Bool = false
    ) {
        self.device = device
        self.root = root
        self.requirements = requirements
        self.sealing = sealing ?? requirements
        self.readsFingers = readsFingers
        self.canAttest = canAttest
        self.sealsRevocably = sealsRevocably
    }

    /// Whether a finger can be asked for now, at the hardware's own reader or through the broker.
    package func fingerState(through presence: any PresenceAuthority) async -> FingerState {
        if readsFingers { return .ready }
        guard let broker = presence.broker else { return .notAvailable("this program can't ask for a finger") }
        return await broker.fingerState()
    }

    /// What a key is for.
    package enum Use: Sendable {
        case signing, sealing
    }

    /// What to demand where nobody has said it: a finger or the PIN where the hardware can enforce that, a finger can be
    /// checked now, and the person wants no PIN only; else the PIN.
    package func preferredPolicy(for use: Use, through presence: any PresenceAuthority) async -> AccessPolicy {
        let enforceable = use == .signing ? requirements : sealing
        guard presence.preference != .pin, enforceable.contains(.userPresence),
            await fingerState(through: presence) == .ready
        else { return .pin }
        return .userPresence
    }

    /// The policy that asks for the least of those under which it can seal, or nil when it can't seal at all.
    public var leastSealing: AccessPolicy? {
        for policy in [AccessPolicy.none, .pin, .userPresence, .biometryAny, .biometryCurrentSet]
        where sealing.contains(policy.requirement) { return policy }
        return nil
    }
}

extension Keystore {
    /// ``KeystoreCapabilities/preferredPolicy(for:through:)``. The hardware is looked at only where there may be a reader.
    package func preferredPolicy(
        for use: KeystoreCapabilities.Use, through presence: any PresenceAuthority
    ) async -> AccessPolicy {
        guard presence.preference != .pin, presence.broker != nil || mayHaveReader,
            let capabilities = try? await capabilities()
        else { return .pin }
        return await capabilities.preferredPolicy(for: use, through: presence)
    }
}
