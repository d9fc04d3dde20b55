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
        // RFC 6750 section 3: a request without a token gets no error code.
        if response.status == .unauthorized, response.headers[.wwwAuthenticate] == nil {
            response.headers[.wwwAuthenticate] = "Bearer realm=\"latchkey-identity\""
        }
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
            return try .refusal(error, of: request)
        } catch let error as BiometricRequestError {
            log("biometric request refused", error, context)
            return try .refusal(error.oauthError, of: request)
        } catch let error as LockerRequestError {
            log("locker request refused", error, context)
            return try .refusal(error.oauthError, of: request)
        } catch let error as DPoPError {
            log("proof of a key refused", error, context)
            let refusal = error.oauthError
            // A resource refuses with a challenge (RFC 9449 section 7.1).
            let status = request.accessToken?.isBound == true ? 401 : 400
            return try .refusal(
                OAuthError(status: status, refusal.error, refusal.description), of: request)
        } catch let error as AttestationError {
            log("attestation refused", error, context)
            return try .refusal(error.oauthError, of: request)
        } catch let error as UnregisteredValue {
            context.logger.notice(
                "the \(error.name) is not registered",
                metadata: [
                    "sent": "\(error.value ?? "")",
                    "registered": "\(error.registered.joined(separator: " "))",
                ])
            return error.page.response(status: .badRequest)
        } catch let error as APIError {
            var response = try error.response()
            if error.code == 401, request.accessToken != nil {
                response.headers[.wwwAuthenticate] =
                    OAuthError.invalidToken(error.message).challenge(to: request)
            }
            return response
        } catch let error as HTTPError
            where error.status == .notFound
            && request.headers[.accept]?.contains("text/html") == true
        {
            return Page.notFound.response(status: .notFound)
        } catch let error as HTTPError {
            return try error.response(from: request, context: context)
        } catch let error as SQLFailure {
            return try refusal(error, request, context)
        } catch is NIOTooManyBytesError {
            return try .refusal(
                OAuthError(status: 413, "invalid_request", "the request is too long"), of: request)
        } catch {
            context.logger.error(
                "failed", metadata: ["path": "\(request.uri.path)", "error": "\(error)"])
            return try .refusal(.serverError, of: request)
        }
    }

    /// 503 with `Retry-After` if the client can repeat the request.
    private func refusal(_ error: SQLFailure, _ request: Request, _ context: IdentityContext) throws
        -> Response
    {
        if error.code == .invalidText {
            return try .refusal(
                .invalidRequest("the request contains a NUL character"), of: request)
        }
        context.logger.error(
            "database failed", metadata: ["path": "\(request.uri.path)", "error": "\(error)"])
        return try .refusal(
            error.isTemporary ? .temporarilyUnavailable : .serverError, of: request)
    }

    private func log<Code>(
        _ message: Logger.Message, _ error: VerificationError<Code>, _ context: IdentityContext
    ) {
        var metadata: Logger.Metadata = [
            "code": "\(error.code.rawValue)", "detail": "\(error.detail)",
        ]
        if let kid = error.keyID { metadata["kid"] = "\(kid)" }
        context.logger.notice(message, metadata: metadata)
    }
}

/// A parameter of a browser's request has a value that is not registered. The user gets a page with
/// the value, and no redirect. Only the log names what is registered.
struct UnregisteredValue: Error {
    /// What the parameter is, for the page.
    let name: String
    let value: String?
    let registered: [String]

    /// With spaces, the value could be read as a text of this server.
    var page: Page {
        let shown = value.flatMap { value in
            value.utf8.allSatisfy { (0x21...0x7E).contains($0) }
                ? "the \(name) \(String(quoted: value, limit: 200)), which is not registered" : nil
        }
        return .message(
            title: AuthorizeEndpoint.refusalTitle,
            text: "The app that sent you here uses \(shown ?? "a \(name) that is not registered").")
    }
}

/// An error of the JSON endpoints outside OAuth, in Authgear's format.
struct APIError: Error, Sendable, Encodable {
    let name: String
    let reason: String
    let message: String
    /// The HTTP status.
    let code: Int

    func response() throws -> Response {
        try .json(["error": self], status: .init(code: code))
    }

    static func invalidBody(_ cause: String) -> APIError {
        APIError(
            name: "Invalid", reason: "ValidationFailed", message: "invalid request body: \(cause)",
            code: 400)
    }

    static let unauthorized = APIError(
        name: "Unauthorized", reason: "Unauthorized", message: "a valid session is required",
        code: 401)
    static let invalidGrant = APIError(
        name: "Forbidden", reason: "InvalidGrant", message: "invalid refresh token", code: 403)
    static let identityNotFound = APIError(
        name: "NotFound", reason: "IdentityNotFound", message: "identity not found", code: 404)
}

extension OAuthError {
    /// The value of `WWW-Authenticate` for a request with an access token (RFC 6750 section 3, RFC
    /// 9449 section 7.1).
    ///
    /// For `invalid_grant`, which Authgear's apps expect in the body, it has the error code of RFC
    /// 6750.
    func challenge(to request: Request) -> String {
        let code = error == "invalid_grant" ? "invalid_token" : error
        let scheme =
            request.accessToken?.isBound == true
            ? "DPoP algs=\"\(DPoPVerifier.algorithms.joined(separator: " "))\"," : "Bearer"
        return "\(scheme) error=\"\(code)\", error_description=\"\(description)\""
            + (maximumAge.map { ", max_age=\"\($0)\"" } ?? "")
    }

    /// Whether the cause is a missing or invalid bearer token.
    var isAboutBearerToken: Bool { ["invalid_token", "invalid_grant"].contains(error) }

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
        503, "temporarily_unavailable", "the server cannot answer now, please try again later",
        retryAfter: 1)
}
