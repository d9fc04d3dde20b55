internal import Latchkey
internal import NIOCore
internal import NIOHTTP1

/// Answers one HTTP request of a browser and closes the connection.
final class RedirectHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let respond: @Sendable (_ head: HTTPRequestHead) -> RedirectReply
    private var reply: RedirectReply?

    /// - Parameter respond: Returns the reply to a request.
    init(respond: @escaping @Sendable (_ head: HTTPRequestHead) -> RedirectReply) {
        self.respond = respond
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): reply = respond(head)
        case .body: break
        case .end: finish(context)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is IdleStateHandler.IdleStateEvent { context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func finish(_ context: ChannelHandlerContext) {
        guard let reply else { return }
        let page = reply.page
        var headers: HTTPHeaders = [
            "Content-Type": "text/html; charset=utf-8", "Content-Length": String(page.utf8.count),
            "Content-Security-Policy": "default-src 'none'", "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store", "Connection": "close",
        ]
        if let location = reply.location { headers.add(name: "Location", value: location) }
        context.write(
            wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: reply.status, headers: headers))),
            promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: page)))), promise: nil)
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }
}

/// Decides the reply to each request that reaches the loopback port of one login.
struct RedirectResponder: Sendable {
    let link: OneTimeLink
    /// The URL of the login page.
    let page: String
    /// Parses the query of a request; nil if it is not a response to the authorization request.
    let accept: @Sendable (_ query: String) -> AuthorizationAnswer?
    /// Ends the login. Only the first call has an effect.
    let end: @Sendable (AuthorizationAnswer) -> Void

    /// - Parameter isKnown: Whether the client is certainly a program of this user; false if unknown.
    ///   Connections of other users are closed before they get here.
    func reply(to head: HTTPRequestHead, fromKnownUser isKnown: Bool) -> RedirectReply {
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let isStart = link.leads(from: parts[0])
        guard isStart || parts[0] == LoopbackListener.path else { return .notFound }
        guard head.method == .GET else { return .notAllowed }
        guard !isStart else { return start(forKnownUser: isKnown) }
        guard parts.count == 2, let answer = accept(String(parts[1])) else { return .refused }
        end(answer)
        return .done
    }

    /// The user's own programs may open the link any number of times, for example in a second browser. Where the system
    /// does not show which user a program belongs to, only the first request is redirected; a second ends the login.
    func start(forKnownUser isKnown: Bool) -> RedirectReply {
        guard isKnown || link.use() else {
            end(.linkReused)
            return .linkReused
        }
        return .seeOther(page)
    }
}

/// A page or redirect of the loopback port.
enum RedirectReply: Equatable {
    /// A redirect to this URL.
    case seeOther(String)
    case done
    case refused
    case linkReused
    case notFound
    case notAllowed

    var status: HTTPResponseStatus {
        switch self {
        case .seeOther: .seeOther
        case .done: .ok
        case .refused: .badRequest
        case .linkReused: .gone
        case .notFound: .notFound
        case .notAllowed: .methodNotAllowed
        }
    }

    var location: String? {
        guard case .seeOther(let url) = self else { return nil }
        return url
    }

    var page: String {
        """
        <!doctype html>
        <html lang="en"><head><meta charset="utf-8"><title>Latchkey</title></head>
        <body><h1>\(heading)</h1><p>\(text)</p></body></html>

        """
    }

    private var heading: String {
        switch self {
        case .seeOther: "The login page has another address"
        case .done: "You can close this window"
        case .linkReused: "The login was stopped"
        case .refused, .notFound, .notAllowed: "Nothing to see here"
        }
    }

    private var text: String {
        switch self {
        case .seeOther: "Your browser should have opened it."
        case .done: "The program that opened this page continues."
        case .refused: "This is not the response that the program waits for."
        case .linkReused:
            "Its link was opened before, and it works once. If you did not open it, another user tried to use your login."
        case .notFound, .notAllowed: "This address is only for one login."
        }
    }
}
