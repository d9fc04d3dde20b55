/// What a new key is to be.
public struct KeyRequest: Hashable, Sendable {
    public var id: KeyID
    public var policy: AccessPolicy
    /// A name for people, at most 64 characters are sensible; not unique.
    public var label: String?
    public var prompt: PromptContext

    public init(id: KeyID = .random(), policy: AccessPolicy, label: String? = nil, prompt: PromptContext) {
        self.id = id
        self.policy = policy
        self.label = label
        self.prompt = prompt
    }
}
