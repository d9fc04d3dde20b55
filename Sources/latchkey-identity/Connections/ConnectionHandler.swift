import NIOCore

/// Hands a new connection to the limiter, once it is open.
final class ConnectionHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private let limiter: ConnectionLimiter

    init(limiter: ConnectionLimiter) {
        self.limiter = limiter
    }

    func channelActive(context: ChannelHandlerContext) {
        context.fireChannelActive()
        let address = context.remoteAddress?.ipAddress.flatMap { IPAddress($0) }
        limiter.admit(context.channel, from: address?.network ?? "")
    }
}
