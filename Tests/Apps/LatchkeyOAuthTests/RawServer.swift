import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// A TCP server that answers each request with bytes that the test chose.
final class RawServer: Sendable {
    /// `127.0.0.1:PORT` or `[::1]:PORT`.
    let authority: String
    let port: Int
    private let channel: any Channel
    private let log: RequestLog

    /// The received requests.
    var requests: [String] { log.requests.withLock(\.self) }
    /// The number of connections that sent something.
    var connections: Int { log.connections.withLock(\.self) }

    private init(_ channel: any Channel, _ log: RequestLog) {
        self.channel = channel
        self.log = log
        port = channel.localAddress?.port ?? 0
        let address = channel.localAddress?.ipAddress ?? ""
        authority = address.contains(":") ? "[\(address)]:\(port)" : "\(address):\(port)"
    }

    /// Runs a server for the time of `body`.
    ///
    /// - Parameters:
    ///   - answer: The bytes to answer with; nil for a connection that stays silent, empty for one
    ///     that is closed.
    ///   - drop: Bytes that are sent after the answer, repeatedly until the connection is closed.
    ///   - isClosedAfter: Whether the server hangs up after the answer.
    ///   - answers: The number of requests of a connection that are answered. The next one closes
    ///     it.
    ///   - host: The address to listen on.
    static func with(
        _ answer: String?, dripping drop: String? = nil, isClosedAfter: Bool = false,
        answers: Int = .max,
        host: String = "127.0.0.1",
        _ body: (RawServer) async throws -> Void
    ) async throws {
        let log = RequestLog()
        let channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        RawHandler(answer, drop, isClosedAfter, answers, log))
                }
            }
            .bind(host: host, port: 0).get()
        do { try await body(RawServer(channel, log)) } catch {
            try? await channel.close().get()
            throw error
        }
        try await channel.close().get()
    }
}

private final class RequestLog: Sendable {
    let requests = Mutex<[String]>([])
    let connections = Mutex(0)
}

private final class RawHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: String?
    private let drop: String?
    private let isClosedAfter: Bool
    private let answers: Int
    private let log: RequestLog
    private var text = ""
    private var count = 0

    init(
        _ answer: String?, _ drop: String?, _ isClosedAfter: Bool, _ answers: Int, _ log: RequestLog
    ) {
        self.answer = answer
        self.drop = drop
        self.isClosedAfter = isClosedAfter
        self.answers = answers
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
        count += 1
        if count == 1 { log.connections.withLock { $0 += 1 } }
        guard let answer else { return }
        guard !answer.isEmpty, count <= answers else { return context.close(promise: nil) }
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
        if isClosedAfter { context.close(promise: nil) }
        guard let drop else { return }
        let channel = context.channel
        context.eventLoop.scheduleRepeatedTask(
            initialDelay: .milliseconds(100), delay: .milliseconds(100)
        ) { task in
            guard channel.isActive else { return task.cancel() }
            channel.writeAndFlush(ByteBuffer(string: drop), promise: nil)
        }
    }
}
