internal import Latchkey

/// One use of one stored object: what it takes to obtain a proof for it, and to explain why it failed.
struct KeyUse: Sendable {
    let blob: TPMKeyBlob
    let policy: AccessPolicy
    let use: ApprovalRequest.Use
    let root: StorageRoot
    let prompt: PromptContext
    let operation: String
    /// What keeps the object's authValue, for a key that can be taken back.
    var authorization: RevocableSecret?

    var protection: PresenceProtection? { blob.protection }
}
