internal import FoundationEssentials
internal import Latchkey

/// As a token is stored: `version`, `id`, `issuedAt` in seconds since 2001 (UTC), `context`, and in `rawValue` the server's
/// answer.
///
/// What iOS apps stored is understood too: the nested form of AuthFoundation (no version, `rawValue`), its older flat form
/// (no version, `accessToken`), and a bare answer of a server, for which the decoder's `userInfo` has the
/// ``Context`` under ``contextKey``.
extension Token: Codable {
    private static let version = 1

    /// Where in a decoder's `userInfo` the context of a bare answer is.
    public static let contextKey = CodingUserInfoKey(rawValue: "org.latchkey.token.context")

    private enum CodingKeys: String, CodingKey {
        case version, id, issuedAt, context, rawValue
        case accessToken, tokenType, expiresIn, scope, refreshToken, idToken, deviceSecret
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let id = try container.decodeIfPresent(String.self, forKey: .id)
        if let version = try container.decodeIfPresent(Int.self, forKey: .version) {
            guard version == Self.version else {
                throw DecodingError.dataCorruptedError(
                    forKey: .version, in: container, debugDescription: "a token of version \(version)")
            }
            try self.init(
                container.decode([String: JSONValue].self, forKey: .rawValue),
                context: container.decode(Context.self, forKey: .context),
                issuedAt: Date(timeIntervalSinceReferenceDate: container.decode(Double.self, forKey: .issuedAt)),
                id: container.decode(String.self, forKey: .id))
        } else if container.contains(.rawValue) || container.contains(.accessToken) {
            let response =
                try container.decodeIfPresent([String: JSONValue].self, forKey: .rawValue)
                ?? Self.response(flat: container)
            let foreign = try container.decode(ForeignContext.self, forKey: .context)
            try self.init(
                response, context: try foreign.context,
                issuedAt: Date(timeIntervalSinceReferenceDate: container.decode(Double.self, forKey: .issuedAt)), id: id
            )
        } else {
            guard let context = Self.contextKey.flatMap({ decoder.userInfo[$0] as? Context }) else {
                throw DecodingError.keyNotFound(
                    CodingKeys.context,
                    .init(codingPath: decoder.codingPath, debugDescription: "the answer's context is unknown"))
            }
            try self.init([String: JSONValue](from: decoder), context: context)
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(Self.version, forKey: .version)
        try container.encode(id, forKey: .id)
        try container.encode(issuedAt.timeIntervalSinceReferenceDate, forKey: .issuedAt)
        try container.encode(context, forKey: .context)
        try container.encode(members, forKey: .rawValue)
    }

    private static func response(flat container: KeyedDecodingContainer<CodingKeys>) throws -> [String: JSONValue] {
        let names: [(CodingKeys, String)] = [
            (.accessToken, "access_token"), (.tokenType, "token_type"), (.expiresIn, "expires_in"), (.scope, "scope"),
            (.refreshToken, "refresh_token"), (.idToken, "id_token"), (.deviceSecret, "device_secret"),
        ]
        var response: [String: JSONValue] = [:]
        for (key, name) in names { response[name] = try container.decodeIfPresent(JSONValue.self, forKey: key) }
        return response
    }

    /// The context as AuthFoundation writes it.
    private struct ForeignContext: Decodable {
        struct Configuration: Decodable {
            let clientId: String
            let issuerURL: String?
            let baseURL: String?
        }

        let configuration: Configuration

        var context: Context {
            get throws {
                guard let issuer = configuration.issuerURL ?? configuration.baseURL else {
                    throw DecodingError.valueNotFound(
                        String.self, .init(codingPath: [], debugDescription: "the token's issuer is unknown"))
                }
                return Context(issuer: issuer, clientID: configuration.clientId)
            }
        }
    }
}
