package import FoundationEssentials
package import Latchkey
internal import LatchkeyJOSE

/// A server's error in the form of RFC 6749 section 5.2, as a client receives it.
///
/// The server's texts are safe for one line of text: characters that are invisible, move a cursor
/// or change the text's direction are replaced by U+FFFD, and long texts are cut and end in `…`.
public struct OAuth2Error: Hashable, Sendable {
    /// The maximum length of the code in Unicode scalars.
    package static let maximumCodeLength = 100
    /// The maximum length of the description and of the URI in Unicode scalars.
    package static let maximumTextLength = 300

    /// The code, for example `invalid_grant`.
    public let error: String
    /// The server's own text, for example `InvalidCredentials`.
    public let description: String?
    /// The address of a page about the error (`error_uri`).
    public let uri: String?
    /// The cause of `attestation_refused`, for example `untrustedEndorsement`.
    package let reason: String?

    package init(
        error: String, description: String? = nil, uri: String? = nil, reason: String? = nil
    ) {
        self.error = String(oneLine: error, limit: Self.maximumCodeLength)
        self.description = description.map { String(oneLine: $0, limit: Self.maximumTextLength) }
        self.uri = uri.map { String(oneLine: $0, limit: Self.maximumTextLength) }
        self.reason = reason.map { String(oneLine: $0, limit: Self.maximumCodeLength) }
    }
}

/// An error of the server's JSON API. Its texts fit on one line, like those of an ``OAuth2Error``.
public struct ServerError: Hashable, Sendable {
    /// The kind, which corresponds to the HTTP status, for example `NotFound`.
    public let name: String
    /// The exact cause, for example `IdentityNotFound`.
    public let reason: String
    /// The server's message.
    public let message: String

    package init(name: String, reason: String, message: String) {
        self.name = String(oneLine: name, limit: OAuth2Error.maximumCodeLength)
        self.reason = String(oneLine: reason, limit: OAuth2Error.maximumCodeLength)
        self.message = String(oneLine: message, limit: OAuth2Error.maximumTextLength)
    }
}

/// A server's response that refuses a request.
public struct ServerRefusal: Hashable, Sendable {
    /// The HTTP status; nil for a response by redirect.
    package let status: Int?
    /// The OAuth error, if the response has one.
    package let oauthError: OAuth2Error?
    /// The error of the server's JSON API, if the response has one and no OAuth error.
    package let serverError: ServerError?

    package init(_ oauthError: OAuth2Error? = nil, serverError: ServerError? = nil, status: Int?) {
        self.oauthError = oauthError
        self.serverError = serverError
        self.status = status
    }

    /// Reads the error in a body (RFC 6749 section 5.2), with any content type.
    package init(status: Int, body: Data) {
        if let body = try? ReceivedJSON.decode(OAuthBody.self, from: body) {
            self.init(
                OAuth2Error(
                    error: body.error, description: body.error_description, uri: body.error_uri,
                    reason: body.reason),
                status: status)
        } else {
            let error = try? ReceivedJSON.decode(APIBody.self, from: body).error
            self.init(
                serverError: error.map {
                    ServerError(name: $0.name, reason: $0.reason, message: $0.message)
                },
                status: status)
        }
    }

    private struct OAuthBody: Decodable {
        let error: String
        let error_description: String?
        let error_uri: String?
        let reason: String?
    }

    private struct APIBody: Decodable {
        struct Error: Decodable {
            let name: String
            let reason: String
            let message: String
        }

        let error: Error
    }

    /// Whether the server only limits the rate of requests.
    package var isRateLimit: Bool { status == 429 || oauthError?.error == "x_rate_limited" }

    /// The cause, as a clause.
    package var reason: String {
        if isRateLimit { return "the server rejects requests because there were too many" }
        if let refusal = attestationRefusal { return refusal.explanation.reason }
        if let oauthError {
            return "the server refused with ‘\(oauthError.error)’"
                + (oauthError.description.map { " (\($0))" } ?? "")
        }
        if let serverError {
            return "the server refused: \(serverError.message) (\(serverError.reason))"
        }
        return "the server answered" + (status.map { " with status \($0)" } ?? " with an error")
    }

    /// The next step, as a sentence.
    package var recovery: Recovery {
        if isRateLimit { return "Wait a minute, then try again." }
        if let refusal = attestationRefusal { return refusal.explanation.recovery }
        return oauthError != nil || serverError != nil
            ? "Ask the server's operator what this means, or log in again."
            : "Check the server's address, and try again later."
    }
}
