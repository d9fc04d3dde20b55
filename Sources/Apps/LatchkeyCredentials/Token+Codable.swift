public import FoundationEssentials
public import Latchkey
internal import LatchkeyJOSE
internal import LatchkeyOAuth

extension Token {
    /// Parses a token endpoint's response.
    ///
    /// - Parameters:
    ///   - response: The JSON object that the server sent (RFC 6749 section 5.1).
    ///   - context: The server and client. If nil, the ID token's `iss` and single `aud` name them.
    ///   - id: The token's name; nil for a new UUID.
    ///   - receivedAt: When the response was received.
    /// - Throws: ``CredentialError`` with code `invalidInput` if the response is invalid, or its
    ///   server and client are unknown.
    public init(
        response: Data, context: Context? = nil, id: String? = nil, receivedAt: Date = Date()
    ) throws(CredentialError) {
        guard let members = try? ReceivedJSON.decode([String: JSONValue].self, from: response)
        else {
            throw .unreadable("the response is not a JSON object")
        }
        try self.init(
            members: members, context: context, id: id ?? Self.newID(), receivedAt: receivedAt)
    }

    /// A new id: a random UUID (RFC 9562) in lower case.
    package static func newID() -> String { UUID().uuidString.lowercased() }

    init(
        members: [String: JSONValue], context: Context?, id: String, receivedAt: Date
    ) throws(CredentialError) {
        guard Self.isID(id) else {
            throw .unreadable("the token's id is empty, too long, or not visible ASCII")
        }
        var members = Self.present(members)
        // Some servers send the number as a string.
        if let text = members[Member.expiresIn]?.string, let number = Double(text) {
            members[Member.expiresIn] = .number(number)
        }
        try Self.check(members)
        let idToken = members[Member.idToken]?.string.flatMap(JWT.init)
        guard members[Member.idToken] == nil || idToken != nil else {
            throw .unreadable("the ID token is not a JWT")
        }
        guard let context = context ?? idToken?.context else {
            throw .unreadable(
                "the response does not name its server and client",
                recovery: Recovery("Set the server's address and the client ID.", .chooseServer))
        }
        guard Endpoint(context.issuer) != nil, !context.clientID.isEmpty else {
            throw .unreadable(
                "‘\(context.issuer)’ is neither https nor on this machine, or no client is named")
        }
        self.init(
            id: id, issuedAt: receivedAt.wholeMilliseconds, context: context, idToken: idToken,
            checked: members)
    }

    /// The members without those that state nothing: a JSON null, and an empty scope, which some
    /// servers send.
    static func present(_ members: [String: JSONValue]) -> [String: JSONValue] {
        members.filter { name, value in value != .null && !(name == Member.scope && value == "") }
    }

    /// Whether the text is a valid id of a token.
    static func isID(_ text: String) -> Bool {
        (1...96).contains(text.utf8.count) && text.isVisibleASCII
    }

    private static func check(_ members: [String: JSONValue]) throws(CredentialError) {
        // A header field may only contain visible ASCII characters (RFC 6750 section 2.1).
        guard let access = members[Member.accessToken]?.string, !access.isEmpty,
            access.isVisibleASCII
        else {
            throw .unreadable("the access token is missing or not visible ASCII")
        }
        guard let type = members[Member.tokenType]?.string, !type.isEmpty, type.isVisibleASCII
        else {
            throw .unreadable("the token has no token type")
        }
        for name in [
            Member.refreshToken, Member.deviceSecret, Member.scope, Member.idToken,
            Member.issuedTokenType,
        ] {
            guard let value = members[name] else { continue }
            guard let text = value.string, !text.isEmpty else {
                throw .unreadable("the token's ‘\(name)’ is empty or not a string")
            }
        }
        guard let life = members[Member.expiresIn] else { return }
        guard let seconds = life.number, (0...longestLife).contains(seconds) else {
            throw .unreadable("the token's lifetime is not between 0 s and 100 years")
        }
    }

    private static let longestLife: TimeInterval = 100 * 365 * 86_400
}

extension JWT {
    /// The server and client of the token, if it names only one client.
    fileprivate var context: Token.Context? {
        guard let issuer,
            let client = self["azp"]?.string ?? (audience.count == 1 ? audience.first : nil)
        else {
            return nil
        }
        return Token.Context(issuer: issuer, clientID: client)
    }
}

extension Date {
    /// The date rounded down to milliseconds, which a JSON number preserves.
    var wholeMilliseconds: Date {
        Date(timeIntervalSince1970: (timeIntervalSince1970 * 1000).rounded(.down) / 1000)
    }
}

/// A token is encoded with `version`, `id`, `issuedAt` (seconds since 1970), `context` and
/// `response`, the server's response. Decoding also accepts a server's response: the token then
/// gets a new id, the current time, and the server and client that its ID token names. To choose
/// them, use ``init(response:context:id:receivedAt:)``.
extension Token: Codable {
    /// The version of the encoding.
    static let formatVersion = 1

    /// The last second of the year 9999, the maximum distance of a valid time from 1970.
    private static let lastTime: TimeInterval = 253_402_300_799

    private enum CodingKeys: String, CodingKey {
        case version, id, issuedAt, context, response
    }

    private struct StoredContext: Codable {
        let issuer: String
        let clientID: String
        let clientSecret: String?

        init(_ context: Context) {
            (issuer, clientID, clientSecret) = (
                context.issuer, context.clientID, context.clientSecret
            )
        }

        var context: Context {
            Context(issuer: issuer, clientID: clientID, clientSecret: clientSecret)
        }
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        guard container.contains(.response) else {
            let members = try [String: JSONValue](from: decoder)
            try self.init(members: members, context: nil, id: Self.newID(), receivedAt: Date())
            return
        }
        guard try container.decode(Int.self, forKey: .version) == Self.formatVersion else {
            throw DecodingError.dataCorruptedError(
                forKey: .version, in: container,
                debugDescription: "a token of another version of Latchkey")
        }
        let issuedAt = try container.decode(TimeInterval.self, forKey: .issuedAt)
        guard abs(issuedAt) <= Self.lastTime else {
            throw DecodingError.dataCorruptedError(
                forKey: .issuedAt, in: container, debugDescription: "not a time")
        }
        try self.init(
            members: container.decode([String: JSONValue].self, forKey: .response),
            context: container.decode(StoredContext.self, forKey: .context).context,
            id: container.decode(String.self, forKey: .id),
            receivedAt: Date(timeIntervalSince1970: issuedAt))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(Self.formatVersion, forKey: .version)
        try container.encode(id, forKey: .id)
        try container.encode(issuedAt.timeIntervalSince1970, forKey: .issuedAt)
        try container.encode(StoredContext(context), forKey: .context)
        try container.encode(response, forKey: .response)
    }
}
