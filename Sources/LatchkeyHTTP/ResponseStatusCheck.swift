internal import NIOCore
internal import NIOHTTP1

/// Refuses responses with a status that AsyncHTTPClient can't handle, before they reach it.
///
/// AsyncHTTPClient 1.37 skips the head of a response with a status below 200, and ends the process when a body or an end
/// follows. swift-nio expects a body after every status except 100...199, so a status below 100 does that.
///
/// Interim responses (RFC 9110 section 15.2) are dropped here. The program asks for none, so a server that sends many is
/// refused too.
final class ResponseStatusCheck: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart

    enum Failure: Error, Hashable {
        /// The status is not 200...599 (RFC 9110 section 15). 101 is refused since no request asks for an upgrade.
        case invalidStatus(Int)
        case tooManyInterimResponses
    }

    private static let maximumInterimResponses = 8
    private var interimResponses = 0
    private var hasFailed = false

    /// Puts the check in front of AsyncHTTPClient's own handler. A connection without the check is closed.
    ///
    /// - Parameter channel: A connection that is used by AsyncHTTPClient and has not read anything yet.
    static func install(in channel: any Channel) -> EventLoopFuture<Void> {
        do {
            let pipeline = channel.pipeline.syncOperations
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
            try pipeline.addHandler(ResponseStatusCheck(), position: .after(decoder))
        } catch {
            // AsyncHTTPClient would end the process if an open connection failed here. A request on a closed one fails.
            channel.close(promise: nil)
        }
        return channel.eventLoop.makeSucceededVoidFuture()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !hasFailed else { return }
        guard case .head(let head) = unwrapInboundIn(data) else { return context.fireChannelRead(data) }
        switch Int(head.status.code) {
        case 200...599:
            interimResponses = 0
            context.fireChannelRead(data)
        case 100, 102...199:
            interimResponses += 1
            if interimResponses > Self.maximumInterimResponses { fail(.tooManyInterimResponses, context) }
        case let code: fail(.invalidStatus(code), context)
        }
    }

    private func fail(_ failure: Failure, _ context: ChannelHandlerContext) {
        hasFailed = true
        context.fireErrorCaught(failure)
        context.close(promise: nil)
    }
}
