public import FoundationEssentials
public import Latchkey

extension Token {
    /// What is known of a stored token without opening it: it needs neither the hardware nor anybody.
    ///
    /// It is authenticated whenever the token is read, and not before: let it decide what to show, not what to allow.
    public struct Metadata: Hashable, Sendable, Identifiable, HasClaims {
        /// The token's id.
        public let id: String
        /// The app's own labels.
        public let tags: [String: String]
        /// What the ID token says about the user; see ``CredentialConfiguration/copiedClaims``.
        public let claims: [String: JSONValue]
        /// The issuer's address.
        public let server: String
        /// The OAuth client id.
        public let clientID: String
        /// When the server's answer came; whole seconds.
        public let issuedAt: Date
        /// When the access token ends, where the server said so; whole seconds.
        public let expiresAt: Date?
        /// Whether it has a refresh token.
        public let isRefreshable: Bool
        /// What the hardware demands before it opens the token.
        public let security: AccessPolicy.Requirement
        /// When it was first stored; whole seconds.
        public let createdAt: Date
    }
}
