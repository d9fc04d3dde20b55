internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import Synchronization

/// Redirects the browser to the login page, and receives the response to one authorization request
/// on a loopback port (RFC 8252 section 7.3).
///
/// Connections of other users of the machine are closed when they are accepted, and do not count
/// for the limit. Two requests end the wait: a GET of ``path`` with the right `state`, and a second
/// GET of the link. Every other request gets an error page and changes nothing.
struct LoopbackListener: Sendable {
    /// The path of the redirect URI.
    static let path = "/callback"
    /// The maximum number of connections of the user's own programs at the same time.
    static let connectionLimit = 16
    /// How long a connection may stay silent.
    static let connectionTimeout: TimeAmount = .seconds(15)

    /// `http://127.0.0.1:PORT/callback`.
    let redirectURI: String
    /// `http://127.0.0.1:PORT/start/…`: redirects to the login page.
    let link: String
    private let channel: any Channel
    private let answers: AsyncStream<AuthorizationAnswer>

    /// Listens on a free port.
    ///
    /// - Parameters:
    ///   - page: Returns the URL of the login page for a redirect URI.
    ///   - accept: Parses the query of a request; nil if it is not a response to the authorization
    ///     request.
    static func start(
        page: @escaping @Sendable (_ redirectURI: String) -> String,
        accept: @escaping @Sendable (_ query: String) -> AuthorizationAnswer?
    ) async throws(AuthorizationFailure) -> LoopbackListener {
        let (answers, continuation) = AsyncStream.makeStream(of: AuthorizationAnswer.self)
        let connections = ConnectionCounter(limit: connectionLimit)
        let link = OneTimeLink()
        let bootstrap = ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            // Connections of all users share this queue until they are accepted.
            .serverChannelOption(.backlog, value: 128)
            .childChannelInitializer { channel in
                let owner = LoopbackPeer(
                    client: channel.remoteAddress, server: channel.localAddress)?.owner
                guard let owner, owner != .otherUser, connections.admit(channel) else {
                    return refuse(channel)
                }
                return channel.eventLoop.makeCompletedFuture {
                    let responder = RedirectResponder(
                        link: link, page: page(try redirectURI(channel)), accept: accept
                    ) {
                        continuation.yield($0)
                        continuation.finish()
                    }
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.configureHTTPServerPipeline(withErrorHandling: true)
                    try pipeline.addHandler(IdleStateHandler(allTimeout: connectionTimeout))
                    try pipeline.addHandler(
                        RedirectHandler {
                            responder.reply(to: $0, fromKnownUser: owner == .thisUser)
                        })
                }
            }
        do {
            let channel = try await bootstrap.bind(host: "127.0.0.1", port: 0).get()
            return LoopbackListener(
                redirectURI: try redirectURI(channel), link: try origin(channel) + link.path,
                channel: channel,
                answers: answers)
        } catch {
            throw .noPort(String(describing: error))
        }
    }

    /// Closes a connection with a reset. Otherwise the kernel would keep a row for it in the list
    /// of sockets.
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
    func answer(within timeout: Duration) async throws(AuthorizationFailure) -> AuthorizationAnswer
    {
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

    /// Stops listening. Responses in progress are still sent.
    func close() async {
        try? await channel.close().get()
    }
}

/// The URL that is passed to the browser. It redirects programs of this user to the login page.
/// Where the system does not show which user a program belongs to, it redirects once.
///
/// Every user of the machine can read the arguments of a program (proc(5), `/proc/PID/cmdline`).
/// With the URL of the login page, another user could finish the login with another account.
final class OneTimeLink: Sendable {
    /// `/start/` and 43 random characters.
    let path = "/start/" + RandomText.make()
    private let isUsed = Mutex(false)

    func leads(from path: some StringProtocol) -> Bool {
        constantTimeEqual(path.utf8, self.path.utf8)
    }

    /// - Returns: Whether this is the first use.
    func use() -> Bool {
        isUsed.withLock { isUsed in
            defer { isUsed = true }
            return !isUsed
        }
    }
}

/// Limits the number of open connections.
final class ConnectionCounter: Sendable {
    private let limit: Int
    private let open = Mutex(0)

    init(limit: Int) {
        self.limit = limit
    }

    /// Counts the connection until it closes.
    ///
    /// - Returns: false when the limit is reached.
    func admit(_ channel: any Channel) -> Bool {
        let isAdmitted = open.withLock { open in
            guard open < limit else { return false }
            open += 1
            return true
        }
        if isAdmitted { channel.closeFuture.whenComplete { [self] _ in open.withLock { $0 -= 1 } } }
        return isAdmitted
    }
}
