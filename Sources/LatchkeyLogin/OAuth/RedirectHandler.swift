internal import NIOCore
internal import NIOHTTP1

/// Answers one HTTP request of a browser and closes the connection.
final class RedirectHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let path: String
    private let accept: @Sendable (_ query: String) -> Bool
    private var reply: RedirectReply?

    /// - Parameter accept: Whether the query is the awaited answer.
    init(path: String, accept: @escaping @Sendable (_ query: String) -> Bool) {
        self.path = path
        self.accept = accept
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): reply = judge(head)
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

    private func judge(_ head: HTTPRequestHead) -> RedirectReply {
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts[0] == path else { return .notFound }
        guard head.method == .GET else { return .notAllowed }
        return parts.count == 2 && accept(String(parts[1])) ? .done : .refused
    }

    private func finish(_ context: ChannelHandlerContext) {
        guard let reply else { return }
        let page = reply.page
        let headers: HTTPHeaders = [
            "Content-Type": "text/html; charset=utf-8", "Content-Length": String(page.utf8.count),
            "Content-Security-Policy": "default-src 'none'", "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store", "Connection": "close",
        ]
        context.write(
            wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: reply.status, headers: headers))),
            promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: page)))), promise: nil)
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }
}
