import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// A TCP server that answers each request with bytes that the test chose.
final class RawServer: Sendable {
    /// `127.0.0.1:PORT`.
    let authority: String
    private let channel: any Channel
    private let log: RequestLog

    /// What came in, request by request.
    var requests: [String] { log.requests.withLock(\.self) }

    private init(_ channel: any Channel, _ log: RequestLog) {
        self.channel = channel
        self.log = log
        authority = "127.0.0.1:\(channel.localAddress?.port ?? 0)"
    }

    /// Runs a server for the time of `body`.
    ///
    /// - Parameter answer: The bytes to answer with; nil for a connection that stays silent, empty for one that is
    ///   closed.
    static func with(_ answer: String?, _ body: (RawServer) async throws -> Void) async throws {
        let log = RequestLog()
        let channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(RawHandler(answer, log))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        do { try await body(RawServer(channel, log)) } catch {
            try? await channel.close().get()
            throw error
        }
        try await channel.close().get()
    }
}

private final class RequestLog: Sendable {
    let requests = Mutex<[String]>([])
}

private final class RawHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: String?
    private let log: RequestLog
    private var text = ""

    init(_ answer: String?, _ log: RequestLog) {
        self.answer = answer
        self.log = log
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        text += String(buffer: unwrapInboundIn(data))
        // Who begins with a TLS handshake gets no further than that.
        guard !text.hasPrefix("\u{16}") else {
            log.requests.withLock { $0.append(text) }
            return context.close(promise: nil)
        }
        guard let end = text.range(of: "\r\n\r\n") else { return }
        let length = text[..<end.lowerBound].split(separator: "\r\n").lazy
            .filter { $0.lowercased().hasPrefix("content-length:") }
            .compactMap { Int($0.drop { $0 != ":" }.dropFirst().trimmingPrefix(" ")) }.first
        guard text[end.upperBound...].utf8.count >= length ?? 0 else { return }
        log.requests.withLock { $0.append(text) }
        text = ""
        guard let answer else { return }
        guard !answer.isEmpty else { return context.close(promise: nil) }
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
    }
}
