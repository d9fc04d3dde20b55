import Hummingbird
import LatchkeyRelyingParty
import Logging
import NIOCore

/// Turns what an endpoint throws into the answer that it means, and puts the headers on that every answer has.
struct RefusalMiddleware: RouterMiddleware {
    typealias Context = IdentityContext

    @concurrent
    func handle(
        _ request: Request, context: IdentityContext,
        next: @concurrent (Request, IdentityContext) async throws -> Response
    ) async throws -> Response {
        var response = try await answer(request, context: context, next: next)
        response.headers[.xContentTypeOptions] = "nosniff"
        return response
    }

    private func answer(
        _ request: Request, context: IdentityContext,
        next: @concurrent (Request, IdentityContext) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as OAuthError {
            context.logger.info("refused", metadata: ["path": "\(request.uri.path)", "error": "\(error.error)"])
            return try .refusal(error)
        } catch let error as BiometricRequestError {
            context.logger.notice(
                "biometric request refused", metadata: ["code": "\(error.code.rawValue)", "detail": "\(error.detail)"])
            return try .refusal(error.oauthError)
        } catch let error as LockerRequestError {
            context.logger.notice(
                "locker request refused", metadata: ["code": "\(error.code.rawValue)", "detail": "\(error.detail)"])
            return try .refusal(error.oauthError)
        } catch let error as APIError {
            return try error.response()
        } catch let error as HTTPError {
            return try error.response(from: request, context: context)
        } catch is NIOTooManyBytesError {
            return try .refusal(OAuthError(status: 413, "invalid_request", "the request is too long"))
        } catch {
            context.logger.error("failed", metadata: ["path": "\(request.uri.path)", "error": "\(error)"])
            return try .refusal(.serverError)
        }
    }
}
