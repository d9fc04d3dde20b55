/// What happened to the credentials, in this process, after it was made durable.
public enum CredentialEvent: Sendable {
    /// Another credential is the default, or none.
    case defaultChanged(Credential?)
    /// A token was stored.
    case created(Credential)
    /// The tags were changed.
    case tagsChanged(Credential)
    /// The credential was removed from the store.
    case removed(Credential)
    /// The token was refreshed, or replaced by one of a new login.
    case refreshed(Credential)
    /// The token could not be refreshed.
    case refreshFailed(Credential, any Error)
    /// Rows of the store can't be read; what was asked for was answered without them.
    case unreadable(any Error)
    /// A property that can't throw (``Credential/default``, ``Credential/tags``) could not be read or set.
    case failed(any Error)
}
