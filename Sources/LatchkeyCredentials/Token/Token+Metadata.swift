public import FoundationEssentials
public import Latchkey

extension Token {
    /// What is known of a stored token without opening it. It is in the clear on the disk, so that a token can be found
    /// without anybody being present; what an ID token says about a person is part of it, unless the store is told
    /// otherwise: ``CredentialStore/Configuration/claims``.
    public struct Metadata: Hashable, Sendable, Identifiable, HasClaims {
        /// The token's id.
        public let id: String
        /// What the app called it.
        public let tags: [String: String]
        /// The claims of the ID token when the token was stored.
        public let claims: [String: JSONValue]
        /// From whom the token came, and for whom.
        public let context: Context
        /// What opens the token.
        public let security: AccessPolicy
        /// When it was stored first; whole seconds.
        public let createdAt: Date
    }
}
