import Hummingbird
import NIOCore

/// Tells the limiter which connections have a request, and closes a connection whose request takes too long: a client can
/// send a body as slowly as it likes.
struct ConnectionMiddleware: RouterMiddleware {
    typealias Context = IdentityContext

    static let longestRequest: TimeAmount = .seconds(30)

    let limiter: ConnectionLimiter

    @concurrent
    func handle(
        _ request: Request, context: IdentityContext,
        next: @concurrent (Request, IdentityContext) async throws -> Response
    ) async throws -> Response {
        let channel = context.channel
        limiter.begin(channel)
        let deadline = channel.eventLoop.scheduleTask(in: Self.longestRequest) { channel.close(promise: nil) }
        defer {
            deadline.cancel()
            limiter.end(channel)
        }
        return try await next(request, context)
    }
}
