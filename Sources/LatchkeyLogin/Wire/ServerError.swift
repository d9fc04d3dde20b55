/// An error of the server's JSON API.
public struct ServerError: Hashable, Sendable, Codable {
    /// The kind, which goes with the HTTP status, for example `NotFound`.
    public let name: String
    /// The exact cause, for example `IdentityNotFound`.
    public let reason: String
    /// The server's own words.
    public let message: String

    /// An error as the server named it.
    public init(name: String, reason: String, message: String) {
        self.name = name
        self.reason = reason
        self.message = message
    }

    /// How it comes: `{"error": {…}}`.
    struct Envelope: Decodable {
        let error: ServerError
    }
}
