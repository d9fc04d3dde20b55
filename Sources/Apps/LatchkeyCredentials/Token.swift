public import FoundationEssentials
public import Latchkey
public import LatchkeyJOSE
public import LatchkeyOAuth

/// A token response: an access token with its other members (RFC 6749 section 5.1).
///
/// It contains secrets as plain text. Keep ``Credential`` values, and read their token only for a
/// request. The description contains no secret. ``init(response:context:id:receivedAt:)`` parses a
/// server's response.
public struct Token: Hashable, Sendable, Identifiable, HasClaims {
    /// The name of the stored token: 1 to 96 visible ASCII characters. A refresh does not change
    /// it.
    public let id: String
    /// When the response was received.
    public let issuedAt: Date
    /// The server and client of the token.
    public let context: Context
    /// The latest ID token, decoded.
    public let idToken: JWT?
    /// All members of the response.
    private let members: Redacted<[String: JSONValue]>

    /// The server and client of a token.
    public struct Context: Hashable, Sendable {
        /// The issuer's address: an absolute `https` URL, or `http` on a loopback host.
        public let issuer: String
        /// The OAuth client id.
        public let clientID: String
        var clientSecret: String? { secret.value }
        private let secret: Redacted<String?>
        /// The thumbprint of the key to which the server bound the token (RFC 9449); nil for a token
        /// that is not bound.
        public let boundKey: String?

        /// - Parameters:
        ///   - clientSecret: The client's secret, if any.
        ///   - key: The key whose proof the token request had: see
        ///     ``CredentialStore/dpopKey(issuer:clientID:)``.
        public init(
            issuer: String, clientID: String, clientSecret: String? = nil,
            boundTo key: DPoPKey? = nil
        ) {
            self.init(
                issuer: issuer, clientID: clientID, clientSecret: clientSecret,
                boundKey: key?.thumbprint)
        }

        func bound(to key: DPoPKey?) -> Self {
            Self(
                issuer: issuer, clientID: clientID, clientSecret: clientSecret,
                boundKey: key?.thumbprint)
        }

        init(issuer: String, clientID: String, clientSecret: String?, boundKey: String?) {
            self.issuer = issuer
            self.clientID = clientID
            secret = Redacted(value: clientSecret)
            self.boundKey = boundKey
        }
    }

    var response: [String: JSONValue] { members.value }

    /// The type of the access token, for example `Bearer`.
    public var tokenType: String { response[Member.tokenType]?.string ?? "" }
    /// The lifetime of the access token in seconds, if stated.
    public var expiresIn: TimeInterval? { response[Member.expiresIn]?.number }
    /// The access token: visible ASCII characters.
    public var accessToken: String { response[Member.accessToken]?.string ?? "" }
    /// The granted scopes, separated by spaces, if stated.
    public var scope: String? { response[Member.scope]?.string }
    /// The refresh token, if any.
    public var refreshToken: String? { response[Member.refreshToken]?.string }
    /// The device secret for the login of other apps on this device (OpenID Connect Native SSO), if
    /// any.
    public var deviceSecret: String? { response[Member.deviceSecret]?.string }

    /// The claims of the ID token; empty without one.
    public var claims: [String: JSONValue] { idToken?.claims ?? [:] }

    /// The expiry of the access token; nil if not stated.
    public var expiresAt: Date? { expiresIn.map(issuedAt.addingTimeInterval) }

    /// Whether the access token has expired at `now`. A token without an expiry never expires.
    public func isExpired(at now: Date = Date()) -> Bool { expiresAt.map { $0 <= now } ?? false }

    /// Creates a token from validated members.
    init(
        id: String, issuedAt: Date, context: Context, idToken: JWT?,
        checked response: [String: JSONValue]
    ) {
        self.id = id
        self.issuedAt = issuedAt
        self.context = context
        self.idToken = idToken
        members = Redacted(value: response)
    }

    /// The members of a token response that Latchkey uses.
    typealias Member = TokenResponse.Name
}

extension [String: JSONValue] {
    subscript(member: TokenResponse.Name) -> JSONValue? {
        get { self[member.rawValue] }
        set { self[member.rawValue] = newValue }
    }
}

extension Token {
    /// The searchable data of a stored token. Reading it does not prompt, and does not use the
    /// hardware.
    ///
    /// It is verified only when the token is read. Use it to decide what to show, not what to
    /// allow.
    public struct Metadata: Hashable, Sendable, Identifiable, HasClaims {
        /// The token's id.
        public let id: String
        /// The app's labels.
        public let tags: [String: String]
        /// The ID token's claims; see ``CredentialConfiguration/CopiedClaims``.
        public let claims: [String: JSONValue]
        /// The issuer's address.
        package let server: String
        /// The OAuth client id.
        package let clientID: String
        /// When the response was received; whole seconds.
        package let issuedAt: Date
        /// The expiry of the access token, if stated; whole seconds.
        public let expiresAt: Date?
        /// Whether it has a refresh token.
        package let isRefreshable: Bool
        /// The user verification that opening the token requires.
        public let security: AccessPolicy.Requirement
        /// When the credential was first stored; whole seconds.
        package let createdAt: Date
    }
}

extension Token {
    /// One of the secrets of a token.
    public enum Kind: Hashable, Sendable, CaseIterable {
        /// The device secret of native single sign-on.
        case deviceSecret
        /// The refresh token.
        case refreshToken
        /// The access token.
        case accessToken

        /// The member of a response.
        var member: Member {
            switch self {
            case .deviceSecret: .deviceSecret
            case .refreshToken: .refreshToken
            case .accessToken: .accessToken
            }
        }

        /// The name in a `token_type_hint` (RFC 7009 section 2.1).
        var name: String { member.rawValue }

        var words: String { name.replacing("_", with: " ") }
    }

    /// The secret of this kind, if any.
    public func token(of kind: Kind) -> String? { response[kind.member]?.string }

    /// The token without a secret that was revoked. A revoked access token is marked as expired.
    func without(_ kind: Kind) -> Token {
        var members = response
        switch kind {
        case .accessToken: members[Member.expiresIn] = .number(0)
        case .refreshToken, .deviceSecret: members[kind.member] = nil
        }
        return Token(
            id: id, issuedAt: issuedAt, context: context, idToken: idToken, checked: members)
    }

    /// The token with another refresh token.
    func with(refreshToken: String) -> Token {
        var members = response
        members[Member.refreshToken] = .string(refreshToken)
        return Token(
            id: id, issuedAt: issuedAt, context: context, idToken: idToken, checked: members)
    }

    /// The token after a refresh. The id and members that the response lacks stay.
    ///
    /// - Parameters:
    ///   - now: This machine's clock.
    ///   - serverDate: The server's clock, if known.
    /// - Throws: ``CredentialError`` with code `invalidResponse` for an invalid response without a
    ///   refresh token.
    func refreshed(
        by answer: TokenResponse, at now: Date, serverDate: Date?
    ) throws(CredentialError) -> RefreshAnswer {
        let receivedAt = serverDate ?? now
        do {
            let token = try Token(
                answer.merged(into: response), context: context, id: id, receivedAt: now)
            return RefreshAnswer(token: token, receivedAt: receivedAt)
        } catch {
            let flaw = CredentialError(
                code: .invalidResponse, reason: error.reason,
                recovery: "Show this text to the server's operator.")
            guard let rotated = answer[.refreshToken] else { throw flaw }
            return RefreshAnswer(
                token: with(refreshToken: rotated), receivedAt: receivedAt, flaw: flaw)
        }
    }

    /// Whether each request with the token needs a proof of its key (RFC 9449 section 7.1).
    var needsProof: Bool { tokenType.lowercased() == "dpop" }

    /// The value of the field `Authorization` (RFC 6750 section 2.1, RFC 9449 section 7.1).
    var authorization: String {
        get throws(CredentialError) {
            if needsProof { return "DPoP \(accessToken)" }
            guard tokenType.lowercased() == "bearer" else {
                throw .unsupported(
                    "tokens of type ‘\(tokenType)’ are not supported",
                    recovery: "Request a bearer token from the server.")
            }
            return "Bearer \(accessToken)"
        }
    }
}
