public import Latchkey

/// What happened to the credentials in this program.
public enum CredentialEvent: Sendable {
    /// A token was stored.
    case created(Credential)
    /// A credential was removed from this machine.
    case removed(Credential)
    /// There is another default credential, or none.
    case defaultChanged(Credential?)
    /// A credential has other tags.
    case tagsChanged(Credential)
    /// A credential has a new token, which is stored.
    case refreshed(Credential)
    /// A credential could not be refreshed.
    case refreshFailed(Credential, any Error)
    /// Something could not be done that had no way to say so, such as setting ``Credential/default``.
    case failed(any Error)
    /// A search met a record that can't be read.
    case unreadable(KeystoreError)
}
