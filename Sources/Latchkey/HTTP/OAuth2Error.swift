/// A server's error in the form of RFC 6749 section 5.2, as a client gets it.
public struct OAuth2Error: Hashable, Sendable, Codable {
    /// The code, for example `invalid_grant`.
    public let error: String
    /// The server's own words, for example `InvalidCredentials`.
    public let description: String?
    /// Where a person can read more.
    public let uri: String?

    /// An answer with these members.
    public init(error: String, description: String? = nil, uri: String? = nil) {
        self.error = error
        self.description = description
        self.uri = uri
    }

    private enum CodingKeys: String, CodingKey {
        case error
        case description = "error_description"
        case uri = "error_uri"
    }
}
