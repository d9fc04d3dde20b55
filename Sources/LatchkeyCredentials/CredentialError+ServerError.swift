extension CredentialError {
    /// What a server says when it refuses (RFC 6749 section 5.2).
    public struct ServerError: Hashable, Sendable, Codable {
        /// The code, for example `invalid_client`.
        public let error: String
        /// The server's own words.
        public let description: String?

        private enum CodingKeys: String, CodingKey {
            case error
            case description = "error_description"
        }
    }
}
