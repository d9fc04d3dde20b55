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
            wrapOutboundOut(
                .head(HTTPResponseHead(version: .http1_1, status: reply.status, headers: headers))),
            promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: page)))), promise: nil)
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in
            channel.close(promise: nil)
        }
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

    /// - Parameter isKnown: Whether the client is certainly a program of this user; false if
    ///   unknown. Connections of other users are closed before they get here.
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

    /// The user's own programs may open the link any number of times, for example in a second
    /// browser. Where the system does not show which user a program belongs to, only the first
    /// request is redirected; a second ends the login.
    func start(forKnownUser isKnown: Bool) -> RedirectReply {
        guard isKnown || link.use() else {
            end(.failure(.linkReused))
            return .linkReused
        }
        return .seeOther(page)
    }
}

/// A page or redirect of the loopback port.
struct RedirectReply: Equatable {
    let status: HTTPResponseStatus
    let location: String?
    private let heading: String
    private let text: String

    private init(
        _ status: HTTPResponseStatus, location: String? = nil, _ heading: String, _ text: String
    ) {
        self.status = status
        self.location = location
        self.heading = heading
        self.text = text
    }

    /// A redirect to this URL.
    static func seeOther(_ url: String) -> RedirectReply {
        RedirectReply(
            .seeOther, location: url, "The login page has another address",
            "Your browser should have opened it.")
    }

    static let done = RedirectReply(
        .ok, "You can close this window", "The program that opened this page continues.")
    static let refused = RedirectReply(
        .badRequest, "Unexpected response", "This is not the response that the program waits for.")
    static let linkReused = RedirectReply(
        .gone, "The login was stopped",
        "This link works once and was opened before. If you did not open it, another user tried to use your login."
    )
    static let notFound = RedirectReply(
        .notFound, "Page not found", "This address is only for one login.")
    static let notAllowed = RedirectReply(
        .methodNotAllowed, "Method not allowed", "This address is only for one login.")

    var page: String {
        """
        <!doctype html>
        <html lang="en"><head><meta charset="utf-8"><title>Latchkey</title></head>
        <body><h1>\(heading)</h1><p>\(text)</p></body></html>

        """
    }
}
