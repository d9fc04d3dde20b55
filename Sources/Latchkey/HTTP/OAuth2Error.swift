/// A server's error in the form of RFC 6749 section 5.2, as a client gets it.
///
/// What the server wrote comes out fit for one line of text, whoever shows it: what is not to be seen, or would move a
/// cursor or turn the text around it, is U+FFFD, and what is too long is cut and ends in `…`.
public struct OAuth2Error: Hashable, Sendable, Codable {
    /// The most Unicode scalars of the code.
    public static let maximumCodeLength = 100
    /// The most Unicode scalars of the description and of the URI.
    public static let maximumTextLength = 300

    /// The code, for example `invalid_grant`.
    public let error: String
    /// The server's own words, for example `InvalidCredentials`.
    public let description: String?
    /// Where a person can read more.
    public let uri: String?

    /// An answer with these members.
    public init(error: String, description: String? = nil, uri: String? = nil) {
        self.error = String(oneLine: error, limit: Self.maximumCodeLength)
        self.description = description.map { String(oneLine: $0, limit: Self.maximumTextLength) }
        self.uri = uri.map { String(oneLine: $0, limit: Self.maximumTextLength) }
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            error: try container.decode(String.self, forKey: .error),
            description: try container.decodeIfPresent(String.self, forKey: .description),
            uri: try container.decodeIfPresent(String.self, forKey: .uri))
    }

    private enum CodingKeys: String, CodingKey {
        case error
        case description = "error_description"
        case uri = "error_uri"
    }
}
