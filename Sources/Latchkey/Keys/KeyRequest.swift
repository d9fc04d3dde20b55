/// What a new key is to be.
public struct KeyRequest: Hashable, Sendable {
    /// The name that the key is to have.
    public var id: KeyID
    /// Who must be there when it is used. Fixed for the key's life.
    public var policy: AccessPolicy
    /// A name for people, at most 64 characters are sensible; not unique.
    public var label: String?
    /// What the person is told who is asked at its birth.
    public var prompt: PromptContext

    /// A request for a key; by default with a random name.
    public init(id: KeyID = .random(), policy: AccessPolicy, label: String? = nil, prompt: PromptContext) {
        self.id = id
        self.policy = policy
        self.label = label
        self.prompt = prompt
    }
}
