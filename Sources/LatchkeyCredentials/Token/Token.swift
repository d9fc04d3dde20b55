public import FoundationEssentials
public import Latchkey

/// What an authorization server gave for one sign-in: the answer of its token endpoint (RFC 6749 section 5.1), when it
/// came, and from whom.
///
/// A token is a value. To keep it, and to have it refreshed, store it: ``Credential``.
public struct Token: Hashable, Sendable, Identifiable {
    /// Which token is meant, for as long as it is stored: 1 to 64 of the characters `A–Z a–z 0–9 . _ -`. Refreshing keeps
    /// it.
    public let id: String
    /// When the answer came.
    public let issuedAt: Date
    /// From whom it came, and for whom.
    public let context: Context
    /// Everything that the server answered, members that nobody here knows included.
    let members: [String: JSONValue]

    /// What goes with a token, that the server does not say in its answer.
    public struct Context: Hashable, Sendable, Codable {
        /// The server's address, under which its discovery document is: `https`, or `http` on this machine.
        public let issuer: String
        /// The OAuth client.
        public let clientID: String

        public init(issuer: String, clientID: String) {
            self.issuer = issuer
            self.clientID = clientID
        }
    }

    /// The kinds of tokens in one, for revoking and asking about them.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        case accessToken = "access_token"
        case refreshToken = "refresh_token"
        case deviceSecret = "device_secret"
    }

    /// A token from a server's answer.
    ///
    /// - Parameters:
    ///   - response: The members of the answer.
    ///   - id: nil for a new random one.
    /// - Throws: ``CredentialError`` with code `invalidResponse` when the answer is no token.
    public init(
        _ response: [String: JSONValue], context: Context, issuedAt: Date = Date(), id: String? = nil
    ) throws(CredentialError) {
        guard
            let access = response["access_token"]?.string, Self.isHeaderValue(access),
            let type = response["token_type"]?.string, Self.isHeaderValue(type)
        else { throw .invalidResponse("read a token", "there is no access token in it") }
        if let seconds = response["expires_in"], seconds != .null {
            guard let life = Self.seconds(seconds), (0...Self.longestLife).contains(life) else {
                throw .invalidResponse("read a token", "its life is no number of seconds")
            }
        }
        if let text = response["id_token"]?.string, JWT(text) == nil {
            throw .invalidResponse("read a token", "its ID token can't be read")
        }
        let id = id ?? UUID().uuidString
        guard Self.isID(id) else { throw .invalidInput("read a token", "‘\(id)’ is no id for one") }
        self.id = id
        self.issuedAt = issuedAt
        self.context = context
        members = response
    }

    /// A century.
    private static let longestLife: TimeInterval = 100 * 365 * 86400

    static func isID(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }

    /// A token goes into a header: nothing but visible ASCII may (RFC 6750 section 2.1).
    private static func isHeaderValue(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }

    /// A number, which some servers write as a string.
    private static func seconds(_ value: JSONValue) -> TimeInterval? {
        value.number ?? value.string.flatMap(TimeInterval.init)
    }

    private func text(_ name: String) -> String? {
        members[name]?.string.flatMap { $0.isEmpty ? nil : $0 }
    }
}

extension Token {
    /// What authorizes a request.
    public var accessToken: String { text("access_token") ?? "" }
    /// How it is sent, almost always `Bearer`.
    public var tokenType: String { text("token_type") ?? "" }
    /// How many seconds the access token lives from ``issuedAt``; nil when the server does not say.
    public var expiresIn: TimeInterval? { members["expires_in"].flatMap(Self.seconds) }
    /// What was granted; nil when it is what was asked for.
    public var scope: String? { text("scope") }
    /// What gets the next access token.
    public var refreshToken: String? { text("refresh_token") }
    /// Who signed in (OpenID Connect Core section 2).
    public var idToken: JWT? { text("id_token").flatMap(JWT.init) }
    /// What lets other apps of this device sign in (OpenID Connect Native SSO section 3.2).
    public var deviceSecret: String? { text("device_secret") }
    /// What kind of token an exchange gave (RFC 8693 section 2.2.1).
    public var issuedTokenType: String? { text("issued_token_type") }

    /// When the access token ends; nil when the server does not say.
    public var expiresAt: Date? { expiresIn.map { issuedAt.addingTimeInterval($0) } }

    /// The token of a kind; nil without one.
    public subscript(kind: Kind) -> String? { text(kind.rawValue) }

    /// Whether the access token ends within so many seconds. One without an end never does.
    public func expires(within seconds: TimeInterval, of now: Date) -> Bool {
        expiresAt.map { $0.timeIntervalSince(now) <= seconds } ?? false
    }

    /// The token that a refresh gave, under the same id: what the server left out of its answer stays as it was.
    func refreshed(with response: [String: JSONValue], at now: Date) throws(CredentialError) -> Token {
        var merged = members
        // The new access token has its own life, or none that is known.
        merged["expires_in"] = nil
        try merged.merge(Token(response, context: context, issuedAt: now, id: id).members) { _, new in new }
        return try Token(merged, context: context, issuedAt: now, id: id)
    }
}

extension Token: HasClaims {
    /// The ID token's claims; none without one.
    public var claims: [String: JSONValue] { idToken?.claims ?? [:] }
}

extension Token: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "‹token \(id)›" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
