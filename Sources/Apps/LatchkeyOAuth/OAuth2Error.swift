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
    /// The kind, which corresponds to the HTTP status, for example `NotFound`; empty if the server
    /// does not state it.
    public let name: String
    /// The exact cause, for example `IdentityNotFound`; empty if the server does not state it.
    public let reason: String
    /// The server's message.
    public let message: String

    package init(name: String, reason: String, message: String) {
        self.name = String(oneLine: name, limit: OAuth2Error.maximumCodeLength)
        self.reason = String(oneLine: reason, limit: OAuth2Error.maximumCodeLength)
        self.message = String(oneLine: message, limit: OAuth2Error.maximumTextLength)
    }
}

extension ServerError {
    /// The names of members with a text for people, and with a code, in different servers: Authgear,
    /// Google, Okta, Keycloak, Azure, Apigee, and problem details (RFC 9457). In lower case, because
    /// servers write them differently.
    private static let messageNames = [
        "message", "errorsummary", "error_description", "errormessage", "error_message", "detail",
        "title", "description", "msg", "errmsg", "faultstring",
    ]
    private static let codeNames = [
        "reason", "errorcode", "error_code", "status", "code", "errcode", "error",
    ]

    /// Reads an error of a server, in an object `error` or `fault`, as the first of `errors`, or in
    /// the members themselves.
    ///
    /// - Returns: nil if no member has a text for people.
    init?(_ received: [String: JSONValue]) {
        func lowercased(_ members: [String: JSONValue]) -> [String: JSONValue] {
            Dictionary(members.map { ($0.key.lowercased(), $0.value) }) { first, _ in first }
        }
        let members = lowercased(received)
        let first = members["errors"]?.array?.first
        if let words = first?.string, !words.isEmpty {
            self.init(name: "", reason: "", message: words)
            return
        }
        let object = lowercased(
            members["error"]?.object ?? members["fault"]?.object ?? first?.object ?? members)
        func text(_ names: [String]) -> String? {
            names.lazy.compactMap { name in
                object[name].flatMap {
                    $0.string ?? $0.number.flatMap { Int(exactly: $0) }.map(String.init)
                }
            }.first { !$0.isEmpty }
        }
        let code = text(Self.codeNames)
        let isInObject = members["error"]?.object != nil
        guard let message = text(Self.messageNames) ?? (isInObject ? code : nil) else { return nil }
        self.init(
            name: text(["name", "status"]) ?? "", reason: code == message ? "" : code ?? "",
            message: message)
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
    /// The seconds that the server tells the client to wait, if it does.
    package let retryAfter: Int?

    package init(
        _ oauthError: OAuth2Error? = nil, serverError: ServerError? = nil, status: Int?,
        retryAfter: Int? = nil
    ) {
        self.retryAfter = retryAfter
        self.oauthError = oauthError
        self.serverError = serverError
        self.status = status
    }

    /// Reads the error in a body, with any content type: in the form of RFC 6749 section 5.2, or in
    /// one of the other forms in which servers send errors.
    package init(status: Int, body: Data, retryAfter: Int? = nil) {
        // Some servers send texts in Latin-1.
        let text = String(decoding: body, as: UTF8.self)
        let members =
            (try? ReceivedJSON.decode([String: JSONValue].self, from: Data(text.utf8)))
            ?? Self.formMembers(text)
        if let error = members["error"]?.string, !error.isEmpty {
            self.init(
                OAuth2Error(
                    error: error,
                    description: members["error_description"]?.string ?? members["message"]?.string,
                    uri: members["error_uri"]?.string, reason: members["reason"]?.string),
                status: status, retryAfter: retryAfter)
        } else {
            self.init(
                serverError: ServerError(members), status: status, retryAfter: retryAfter)
        }
    }

    /// The members of an error in a form: some servers send one.
    private static func formMembers(_ text: String) -> [String: JSONValue] {
        let fields = FormEncoding.decodableFields(of: text)
        guard fields.first?.name.hasPrefix("error") == true else { return [:] }
        return Dictionary(fields.map { ($0.name, .string($0.value)) }) { first, _ in first }
    }

    /// Whether the server failed, so that its answer decides nothing.
    package var isServerFailure: Bool { (status ?? 0) >= 500 }

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
            return "the server refused: \(serverError.message)"
                + (serverError.reason.isEmpty ? "" : " (\(serverError.reason))")
        }
        return switch status {
        case .some(200..<300): "the server answered with an error without a text"
        case .some(let status) where (300..<400).contains(status):
            "the server answered with status \(status), a redirect to another address, which is not followed"
        case .some(let status): "the server answered with status \(status)"
        case nil: "the server answered with an error"
        }
    }

    /// A time in one unit, rounded up.
    private static func span(_ seconds: Int) -> String {
        let units = [(86_400, "day"), (3600, "hour"), (60, "minute")]
        let (length, name) = units.first { seconds >= $0.0 } ?? (1, "second")
        let count = (seconds + length - 1) / length
        return count == 1 ? "1 \(name)" : "\(count) \(name)s"
    }

    /// The next step, as a sentence.
    package var recovery: Recovery {
        if isRateLimit || isServerFailure, let retryAfter {
            return Recovery("Wait \(Self.span(retryAfter)), then try again.")
        }
        if isRateLimit { return "Wait a minute, then try again." }
        if let refusal = attestationRefusal { return refusal.explanation.recovery }
        let isError = oauthError != nil || serverError != nil || (200..<300).contains(status ?? 0)
        return isError
            ? "Ask the server's operator what this means, or log in again."
            : "Check the server's address, and try again later."
    }
}
