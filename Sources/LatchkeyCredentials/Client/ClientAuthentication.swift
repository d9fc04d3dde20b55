public import Latchkey

/// How a client proves to the server which one it is (RFC 6749 section 2.3).
public enum ClientAuthentication: Sendable {
    /// A public client: it only names itself.
    case none
    /// A confidential client: its secret goes in an `Authorization` header of scheme Basic.
    case clientSecret(SecretBytes)
}
