import HTTPTypes
import Hummingbird
import Logging

/// Answers only requests that are meant for this server.
///
/// A page of another site can have its own name resolve to this machine, and then is of one origin with what listens
/// here (DNS rebinding). Its requests carry that name as `Host`.
struct HostMiddleware: RouterMiddleware {
    typealias Context = IdentityContext

    let origin: Origin

    @concurrent
    func handle(
        _ request: Request, context: IdentityContext,
        next: @concurrent (Request, IdentityContext) async throws -> Response
    ) async throws -> Response {
        // RFC 9112 section 3.2. The first Host is the authority; a second one stays among the headers.
        guard let authority = request.head.authority, request.headers[named: "Host"] == nil else {
            throw HTTPError(.badRequest, message: "a request has exactly one Host header")
        }
        guard origin.isCalled(authority) else {
            context.logger.notice("refused, for another host", metadata: ["host": "\(authority)"])
            throw HTTPError(.misdirectedRequest, message: "this server does not answer for that host")
        }
        return try await next(request, context)
    }
}
