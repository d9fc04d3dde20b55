internal import Latchkey

/// An error of the server's JSON API. Its texts are fit for one line, as those of an ``OAuthError`` are.
public struct ServerError: Hashable, Sendable, Codable {
    /// The kind, which goes with the HTTP status, for example `NotFound`.
    public let name: String
    /// The exact cause, for example `IdentityNotFound`.
    public let reason: String
    /// The server's own words.
    public let message: String

    /// An error as the server named it.
    public init(name: String, reason: String, message: String) {
        self.name = String(oneLine: name, limit: OAuth2Error.maximumCodeLength)
        self.reason = String(oneLine: reason, limit: OAuth2Error.maximumCodeLength)
        self.message = String(oneLine: message, limit: OAuth2Error.maximumTextLength)
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            name: try container.decode(String.self, forKey: .name),
            reason: try container.decode(String.self, forKey: .reason),
            message: try container.decode(String.self, forKey: .message))
    }

    private enum CodingKeys: String, CodingKey {
        case name, reason, message
    }

    /// How it comes: `{"error": {…}}`.
    struct Envelope: Decodable {
        let error: ServerError
    }
}
