/// What a keystore's hardware is and what it can enforce.
public struct KeystoreCapabilities: Hashable, Sendable {
    /// The hardware in words, for example `STM ST33HTPH firmware 1.258`.
    public var device: String
    /// Where its keys live.
    public var root: AssuranceLevel.Root
    /// The policies that it can enforce.
    public var requirements: Set<AccessPolicy.Requirement>
    /// Whether ``Keystore/attest(_:challenge:)`` works.
    public var canAttest: Bool

    public init(
        device: String, root: AssuranceLevel.Root, requirements: Set<AccessPolicy.Requirement>, canAttest: Bool
    ) {
        self.device = device
        self.root = root
        self.requirements = requirements
        self.canAttest = canAttest
    }
}
