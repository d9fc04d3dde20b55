public import FoundationEssentials
public import Latchkey

/// What a server gave for a user: an access token, and what came with it (RFC 6749 section 5.1).
///
/// It holds secrets as plain text, for the moment in which a request is made: keep ``Credential`` values and ask them
/// for the token when it is needed. Its description shows none of them. It is `Codable`; ``init(response:context:id:receivedAt:)``
/// reads the server's own answer.
public struct Token: Hashable, Sendable, Identifiable, HasClaims {
    /// By what name the token is stored: 1 to 96 visible ASCII characters. It stays the same when the token is
    /// refreshed.
    public let id: String
    /// When the server's answer came.
    public let issuedAt: Date
    /// Where the token is from, and for which client.
    public let context: Context
    /// The latest ID token, decoded.
    public let idToken: JWT?
    /// Every member of the server's answer.
    let response: [String: JSONValue]

    /// Where a token is from, and for which client.
    public struct Context: Hashable, Sendable, Codable {
        /// The issuer's address: an absolute `https` URL, or `http` on a loopback host.
        public let issuer: String
        /// The OAuth client id.
        public let clientID: String
        /// The client's secret, where it has one.
        public let clientSecret: String?

        /// The server and the client that a token belongs to.
        public init(issuer: String, clientID: String, clientSecret: String? = nil) {
            self.issuer = issuer
            self.clientID = clientID
            self.clientSecret = clientSecret
        }
    }

    /// The kind of the access token, for example `Bearer`.
    public var tokenType: String { response[Member.tokenType]?.string ?? "" }
    /// For how many seconds after ``issuedAt`` the access token is good, where the server says so.
    public var expiresIn: TimeInterval? { response[Member.expiresIn]?.number }
    /// What goes into requests: visible ASCII characters.
    public var accessToken: String { response[Member.accessToken]?.string ?? "" }
    /// What the token allows, separated by spaces, where the server says so.
    public var scope: String? { response[Member.scope]?.string }
    /// What gets the next access token.
    public var refreshToken: String? { response[Member.refreshToken]?.string }
    /// What lets other apps of this device log in (OpenID Connect Native SSO).
    public var deviceSecret: String? { response[Member.deviceSecret]?.string }
    /// What was issued in a token exchange (RFC 8693).
    public var issuedTokenType: String? { response[Member.issuedTokenType]?.string }

    /// The claims of the ID token; none without one.
    public var claims: [String: JSONValue] { idToken?.claims ?? [:] }

    /// When the access token ends; nil when the server did not say.
    public var expiresAt: Date? { expiresIn.map(issuedAt.addingTimeInterval) }

    /// Whether the access token has ended at `now`. A token without an end never has.
    public func isExpired(at now: Date = Date()) -> Bool { expiresAt.map { $0 <= now } ?? false }

    /// A token from its checked parts.
    init(id: String, issuedAt: Date, context: Context, idToken: JWT?, checked response: [String: JSONValue]) {
        self.id = id
        self.issuedAt = issuedAt
        self.context = context
        self.idToken = idToken
        self.response = response
    }

    /// The members of a token endpoint's answer that have a meaning here.
    enum Member {
        static let accessToken = "access_token"
        static let tokenType = "token_type"
        static let expiresIn = "expires_in"
        static let refreshToken = "refresh_token"
        static let idToken = "id_token"
        static let scope = "scope"
        static let deviceSecret = "device_secret"
        static let issuedTokenType = "issued_token_type"
    }
}

extension Token: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "‹token \(id)›" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Token.Context: CustomStringConvertible, CustomReflectable {
    public var description: String { "\(clientID) at \(issuer)" }
    public var customMirror: Mirror { Mirror(self, children: ["issuer": issuer, "clientID": clientID]) }
}
