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
        try self.init(
            TokenResponse(response), context: context, id: id ?? Self.newID(),
            receivedAt: receivedAt)
    }

    /// A new id: a random UUID (RFC 9562) in lower case.
    package static func newID() -> String { UUID().uuidString.lowercased() }

    init(
        _ response: TokenResponse, context: Context?, id: String, receivedAt: Date
    ) throws(CredentialError) {
        guard Self.isID(id) else {
            throw .unreadable("the token's id is empty, too long, or not visible ASCII")
        }
        do throws(TokenResponseFlaw) {
            _ = try response.checked(requiresKnownType: false)
        } catch {
            throw .unreadable(error.reason)
        }
        var idToken: JWT?
        do throws(JWSFlaw) {
            idToken = try response.idToken.map { text throws(JWSFlaw) in try JWT(reading: text) }
        } catch {
            throw .unreadable(IDTokenFlaw(error).reason)
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
            checked: response.members)
    }

    /// Whether the text is a valid id of a token.
    static func isID(_ text: String) -> Bool {
        (1...96).contains(text.utf8.count) && text.isVisibleASCII
    }
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
/// them, use ``init(response:context:id:receivedAt:)``. It also accepts a token that AuthFoundation
/// has encoded with `JSONEncoder()`, with its id, server and client: see ``Migration``.
extension Token: Codable {
    /// The version of the encoding.
    static let formatVersion = 1

    /// The last second of the year 9999, the maximum distance of a valid time from 1970.
    static let lastTime: TimeInterval = 253_402_300_799

    private enum CodingKeys: String, CodingKey {
        case version, id, issuedAt, context, response
    }

    private struct StoredContext: Codable {
        let issuer: String
        let clientID: String
        let clientSecret: String?
        let boundKey: String?

        init(_ context: Context) {
            (issuer, clientID, clientSecret, boundKey) = (
                context.issuer, context.clientID, context.clientSecret, context.boundKey
            )
        }

        var context: Context {
            Context(
                issuer: issuer, clientID: clientID, clientSecret: clientSecret,
                boundKey: boundKey)
        }
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        guard container.contains(.response) else {
            let members = try [String: JSONValue](from: decoder)
            guard !Self.isOfAuthFoundation(members) else {
                try self.init(authFoundation: members)
                return
            }
            try self.init(
                TokenResponse(members: members), context: nil, id: Self.newID(),
                receivedAt: Date())
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
            TokenResponse(members: container.decode([String: JSONValue].self, forKey: .response)),
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
