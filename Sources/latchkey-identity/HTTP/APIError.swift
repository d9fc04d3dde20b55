import Hummingbird
import Latchkey
import LatchkeyRelyingParty

/// A refusal by one of the JSON endpoints that are not OAuth's.
struct APIError: Error, Sendable, Encodable {
    var name: String
    var reason: String
    var message: String
    /// The HTTP status.
    var code: Int
    var info: JSONValue?

    func response() throws -> Response {
        try .json(["error": self], status: .init(code: code))
    }

    static func validationFailed(_ cause: JSONValue) -> APIError {
        APIError(
            name: "Invalid", reason: "ValidationFailed", message: "invalid request body", code: 400,
            info: .object(["causes": .array([cause])]))
    }

    static let invalidContentType = APIError(
        name: "BadRequest", reason: "BadRequest", message: "request content type is invalid", code: 400)
    static let invalidJSON = APIError(
        name: "BadRequest", reason: "InvalidJSON", message: "request body is not a JSON object", code: 400)
    static let unauthorized = APIError(
        name: "Unauthorized", reason: "Unauthorized", message: "a valid session is required", code: 401)
    static let rateLimited = APIError(
        name: "TooManyRequest", reason: "RateLimited", message: "request rate limited", code: 429)
    static let identityNotFound = APIError(
        name: "NotFound", reason: "IdentityNotFound", message: "identity not found", code: 404)
}
