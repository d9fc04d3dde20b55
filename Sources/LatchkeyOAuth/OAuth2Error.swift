internal import Latchkey

/// A server's error in the form of RFC 6749 section 5.2, as a client receives it.
///
/// The server's texts are safe for one line of text: characters that are invisible, move a cursor or change the text's
/// direction are replaced by U+FFFD, and long texts are cut and end in `…`.
public struct OAuth2Error: Hashable, Sendable, Codable {
    /// The maximum length of the code in Unicode scalars.
    package static let maximumCodeLength = 100
    /// The maximum length of the description and of the URI in Unicode scalars.
    package static let maximumTextLength = 300

    /// The code, for example `invalid_grant`.
    public let error: String
    /// The server's own text, for example `InvalidCredentials`.
    public let description: String?
    /// The address of more information.
    public let uri: String?

    package init(error: String, description: String? = nil, uri: String? = nil) {
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

/// A server's error response, in the words that all facades use.
package struct ServerRefusal: Sendable {
    /// Whether the server only limits the rate of requests.
    package let isRateLimit: Bool
    /// The cause, as one clause.
    package let reason: String
    /// The next step, as one sentence.
    package let recovery: String

    /// - Parameters:
    ///   - error: The server's OAuth error, if it sent one.
    ///   - status: The response's status; nil for a response by redirect.
    package init(_ error: OAuth2Error? = nil, status: Int?) {
        isRateLimit = status == 429 || error?.error == "x_rate_limited"
        if isRateLimit {
            reason = "the server rejects requests because there were too many"
            recovery = "Wait a minute, then try again."
        } else if let error {
            let words = error.description.map { " (\($0))" } ?? ""
            reason = "the server refused with ‘\(error.error)’\(words)"
            recovery = "Ask the server's operator what this means, or log in again."
        } else {
            reason = "the server answered" + (status.map { " with status \($0)" } ?? " with an error")
            recovery = "Check the server's address, and try again later."
        }
    }
}
