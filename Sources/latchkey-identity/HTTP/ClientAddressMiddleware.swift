import HTTPTypes
import Hummingbird

/// Takes the client's address from a proxy that the operator trusts.
struct ClientAddressMiddleware: RouterMiddleware {
    typealias Context = IdentityContext

    private let trustedProxies: Set<String>

    init(trustedProxies: [String]) {
        self.trustedProxies = Set(trustedProxies.compactMap { IPAddress($0)?.description })
    }

    @concurrent
    func handle(
        _ request: Request, context: IdentityContext,
        next: @concurrent (Request, IdentityContext) async throws -> Response
    ) async throws -> Response {
        var context = context
        if trustedProxies.contains(context.address), let client = Self.lastHop(request.headers) {
            context.address = client.description
        }
        return try await next(request, context)
    }

    /// The entry that the proxy itself wrote. What stands before it, the client may have made up.
    private static func lastHop(_ headers: HTTPFields) -> IPAddress? {
        headers[named: "X-Forwarded-For"]?
            .split(separator: ",", omittingEmptySubsequences: false).last
            .flatMap { IPAddress($0.filter { $0 != " " && $0 != "\t" }) }
    }
}
