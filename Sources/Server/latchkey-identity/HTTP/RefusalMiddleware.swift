import Hummingbird
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Logging
import NIOCore

/// Turns the error that an endpoint throws into a response, and adds the headers that all responses
/// have.
struct RefusalMiddleware: RouterMiddleware {
    @concurrent
    func handle(_ request: Request, context: IdentityContext, next: Next) async throws -> Response {
        var response = try await answer(request, context: context, next: next)
        response.headers[.xContentTypeOptions] = "nosniff"
        return response
    }

    private func answer(_ request: Request, context: IdentityContext, next: Next) async throws
        -> Response
    {
        do {
            return try await next(request, context)
        } catch let error as OAuthError {
            context.logger.info(
                "refused", metadata: ["path": "\(request.uri.path)", "error": "\(error.error)"])
            return try .refusal(error)
        } catch let error as BiometricRequestError {
            log("biometric request refused", error, context)
            return try .refusal(error.oauthError)
        } catch let error as LockerRequestError {
            log("locker request refused", error, context)
            return try .refusal(error.oauthError)
        } catch let error as AttestationError {
            log("attestation refused", error, context)
            return try .refusal(error.oauthError)
        } catch let error as APIError {
            return try error.response()
        } catch let error as HTTPError {
            return try error.response(from: request, context: context)
        } catch let error as SQLFailure {
            return try refusal(error, request, context)
        } catch is NIOTooManyBytesError {
            return try .refusal(
                OAuthError(status: 413, "invalid_request", "the request is too long"))
        } catch {
            context.logger.error(
                "failed", metadata: ["path": "\(request.uri.path)", "error": "\(error)"])
            return try .refusal(.serverError)
        }
    }

    /// 503 with `Retry-After` if the client can repeat the request.
    private func refusal(_ error: SQLFailure, _ request: Request, _ context: IdentityContext) throws
        -> Response
    {
        if error.code == .invalidText {
            return try .refusal(OAuthError.invalidRequest("the request contains a NUL character"))
        }
        context.logger.error(
            "database failed", metadata: ["path": "\(request.uri.path)", "error": "\(error)"])
        return try .refusal(error.isTemporary ? .temporarilyUnavailable : .serverError)
    }

    private func log<Code>(
        _ message: Logger.Message, _ error: VerificationError<Code>, _ context: IdentityContext
    ) {
        context.logger.notice(
            message, metadata: ["code": "\(error.code.rawValue)", "detail": "\(error.detail)"])
    }
}

/// An error of the JSON endpoints outside OAuth, in Authgear's format.
struct APIError: Error, Sendable, Encodable {
    let name: String
    let reason: String
    let message: String
    /// The HTTP status.
    let code: Int
    var info: JSONValue?

    func response() throws -> Response {
        try .json(["error": self], status: .init(code: code))
    }

    static func validationFailed(_ cause: JSONValue) -> APIError {
        APIError(
            name: "Invalid", reason: "ValidationFailed", message: "invalid request body", code: 400,
            info: ["causes": [cause]])
    }

    static let invalidContentType = APIError(
        name: "BadRequest", reason: "BadRequest", message: "request content type is invalid",
        code: 400)
    static let invalidJSON = APIError(
        name: "BadRequest", reason: "InvalidJSON", message: "request body is not a JSON object",
        code: 400)
    static let unauthorized = APIError(
        name: "Unauthorized", reason: "Unauthorized", message: "a valid session is required",
        code: 401)
    static let rateLimited = APIError(
        name: "TooManyRequest", reason: "RateLimited", message: "request rate limited", code: 429)
    static let identityNotFound = APIError(
        name: "NotFound", reason: "IdentityNotFound", message: "identity not found", code: 404)
}

extension OAuthError {
    /// The bearer token is unknown, expired or revoked (RFC 6750 section 3.1).
    static func invalidToken(_ description: String) -> OAuthError {
        OAuthError(status: 401, "invalid_token", description)
    }

    /// The bearer token is valid but lacks a scope (RFC 6750 section 3.1).
    static func insufficientScope(_ scope: String) -> OAuthError {
        OAuthError(status: 403, "insufficient_scope", "the access token needs the scope \(scope)")
    }

    /// The session began with too weak an authentication, or too long ago (RFC 9470 section 3).
    static func insufficientUserAuthentication(maximumAge: Int? = nil) -> OAuthError {
        OAuthError(
            403, "insufficient_user_authentication", "the user has to be authenticated again",
            maximumAge: maximumAge)
    }

    /// The database is not available, or busy. The client can repeat the request (RFC 6749 section
    /// 4.1.2.1).
    static let temporarilyUnavailable = OAuthError(
        503, "temporarily_unavailable", "the server is busy, please try again later", retryAfter: 1)

    /// There were too many requests, with the words of deployed Authgear servers.
    static func rateLimited(retryAfter: Int? = nil) -> OAuthError {
        OAuthError(
            429, "x_rate_limited", "rate limit exceeded, please try again later.",
            retryAfter: retryAfter)
    }
}
