internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// Sends the browser to the login page, and waits on a loopback port for it to bring the answer to one authorization
/// request (RFC 8252 section 7.3).
///
/// Connections of other users of the machine are closed when they are accepted, and do not count for the limit. Only a
/// GET of the one path that carries the right `state`, and a second one of the link, end the wait; every other request gets
/// an error page and changes nothing.
struct LoopbackListener: Sendable {
    /// The path of the redirect URI.
    static let path = "/callback"
    /// How many connections of the user's own programs are served at once, and for how long each may stay silent.
    static let connectionLimit = 16
    static let connectionTimeout: TimeAmount = .seconds(15)

    /// `http://127.0.0.1:PORT/callback`.
    let redirectURI: String
    /// `http://127.0.0.1:PORT/start/…`: leads to the login page, once.
    let link: String
    private let channel: any Channel
    private let answers: AsyncStream<AuthorizationAnswer>

    /// Starts to listen on a free port.
    ///
    /// - Parameters:
    ///   - page: The address of the login page, for the redirect URI.
    ///   - accept: Tells an answer from noise, by the query of the request.
    static func start(
        page: @escaping @Sendable (_ redirectURI: String) -> String,
        accept: @escaping @Sendable (_ query: String) -> AuthorizationAnswer?
    ) async throws(AuthorizationFailure) -> LoopbackListener {
        let (answers, continuation) = AsyncStream.makeStream(of: AuthorizationAnswer.self)
        let connections = ConnectionCounter(limit: connectionLimit)
        let link = OneTimeLink()
        let bootstrap = ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            // Connections of all users wait here until they are accepted.
            .serverChannelOption(.backlog, value: 128)
            .childChannelInitializer { channel in
                let peer = LoopbackPeer(client: channel.remoteAddress, server: channel.localAddress)
                guard let peer, let isKnown = peer.owner.isKnown, connections.admit(channel) else {
                    return refuse(channel)
                }
                return channel.eventLoop.makeCompletedFuture {
                    let desk = RedirectDesk(link: link, page: page(try redirectURI(channel)), accept: accept) {
                        continuation.yield($0)
                        continuation.finish()
                    }
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.configureHTTPServerPipeline(withErrorHandling: true)
                    try pipeline.addHandler(IdleStateHandler(allTimeout: connectionTimeout))
                    try pipeline.addHandler(RedirectHandler { desk.reply(to: $0, fromKnownUser: isKnown) })
                }
            }
        do {
            let channel = try await bootstrap.bind(host: "127.0.0.1", port: 0).get()
            return LoopbackListener(
                redirectURI: try redirectURI(channel), link: try origin(channel) + link.path, channel: channel,
                answers: answers)
        } catch {
            throw .noPort(String(describing: error))
        }
    }

    /// Closes a connection with a reset, so that the kernel keeps no row for it in the list that is searched for peers.
    private static func refuse(_ channel: any Channel) -> EventLoopFuture<Void> {
        guard let options = channel as? any SocketOptionProvider else { return channel.close() }
        return options.setSoLinger(linger(l_onoff: 1, l_linger: 0)).flatMap { channel.close() }
    }

    private static func redirectURI(_ channel: any Channel) throws -> String {
        try origin(channel) + path
    }

    private static func origin(_ channel: any Channel) throws -> String {
        guard let port = channel.localAddress?.port else { throw ChannelError.unknownLocalAddress }
        return "http://127.0.0.1:\(port)"
    }

    /// Waits for the answer.
    ///
    /// - Throws: ``AuthorizationFailure``: `timedOut`, or `cancelled` when the task is.
    func answer(within timeout: Duration) async throws(AuthorizationFailure) -> AuthorizationAnswer {
        let answers = answers
        let answer = await withTaskGroup(of: AuthorizationAnswer?.self) { group in
            group.addTask { await answers.first { _ in true } }
            group.addTask {
                try? await Task.sleep(for: timeout)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
        if let answer { return answer }
        guard !Task.isCancelled else { throw .cancelled }
        throw .timedOut
    }

    /// Stops listening. Pages that are on their way still arrive.
    func close() async {
        try? await channel.close().get()
    }
}
