internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// Redirects the browser to the login page, and receives the response to one authorization request
/// on a loopback port (RFC 8252 section 7.3).
///
/// Connections of other users of the machine are closed when they are accepted, and do not count
/// for the limit. Two requests end the wait: a GET of ``path`` with the right `state`, and a second
/// GET of the link. Every other request gets an error page and changes nothing. For a page without
/// an answer, the first redirect ends the wait. Its URL contains a secret, so that only programs that
/// are certainly this user's are redirected.
struct LoopbackListener: Sendable {
    /// The path of the redirect URI.
    static let path = "/callback"
    /// The maximum number of connections of the user's own programs at the same time. Further ones
    /// wait.
    static let connectionLimit = 16
    /// The time for a request and its response.
    static let connectionTimeout: Duration = .seconds(15)

    /// `http://127.0.0.1:PORT/callback`.
    let redirectURI: String
    /// `http://127.0.0.1:PORT/start/…`: redirects to the login page.
    let link: String
    private let socket: ListeningSocket
    private let server: ConnectionServer
    private let answers: AsyncStream<AuthorizationAnswer>

    /// - Parameters:
    ///   - port: The port; nil for a free one.
    ///   - page: Returns the URL of the login page for a redirect URI.
    ///   - endsWhenOpened: Whether the redirect to the page ends the wait; the answer is the page.
    ///     The page's URL is then secret.
    ///   - notify: Shows the user why a request was refused, once for each cause.
    ///   - accept: Parses the query of a request; nil if it is not a response to the authorization
    ///     request.
    static func start(
        port chosen: UInt16? = nil,
        page: @escaping @Sendable (_ redirectURI: String) -> String,
        endsWhenOpened: Bool = false,
        notify: @escaping @Sendable (_ notice: String) -> Void = { _ in },
        accept: @escaping @Sendable (_ query: String) -> AuthorizationAnswer?
    ) throws(AuthorizationFailure) -> LoopbackListener {
        let socket: ListeningSocket
        do throws(SystemError) {
            // Connections of all users share this queue until they are accepted.
            socket = try .loopback(port: chosen ?? 0, queue: 128)
        } catch {
            throw .noPort(chosen, "\(error)")
        }
        guard let port = TCPSocket.End(ownOf: socket.descriptor)?.port else {
            throw .noPort(chosen, "the system does not show the port")
        }
        let origin = "http://127.0.0.1:\(port)"
        let (answers, continuation) = AsyncStream.makeStream(of: AuthorizationAnswer.self)
        let end: @Sendable (AuthorizationAnswer) -> Void = {
            continuation.yield($0)
            continuation.finish()
        }
        let link = OneTimeLink()
        let notices = LoopbackNotices { notify($0.text(port: port)) }
        let responder = RedirectResponder(
            link: link, page: page(origin + path), isSecret: endsWhenOpened, accept: accept,
            notices: notices, end: end)
        let server = ConnectionServer(socket, limit: connectionLimit) { connection in
            let owner = LoopbackPeer(connection: connection)?.owner ?? .otherUser(nil)
            if case .otherUser(let user) = owner {
                if let user { notices.add(.otherUser(user)) }
                resetAtClose(connection)
                return nil
            }
            return {
                var opened: String?
                LoopbackConnection(descriptor: connection, deadline: .now + connectionTimeout)
                    .serve {
                        let reply = responder.reply(to: $0, fromKnownUser: owner == .thisUser)
                        opened = reply.location
                        return reply
                    }
                // After the response is sent: the program may end when the wait does.
                if endsWhenOpened, let opened { end(.success(opened)) }
            }
        }
        guard server.start() else {
            throw .noPort(chosen, "the system has no more threads or files")
        }
        return LoopbackListener(
            redirectURI: origin + path, link: origin + link.path, socket: socket, server: server,
            answers: answers)
    }

    /// Without a reset, the kernel would keep a row for the connection in the list of sockets.
    private static func resetAtClose(_ connection: Int32) {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(
            connection, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
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
        throw Task.isCancelled ? .cancelled : .timedOut
    }

    /// Stops listening. Responses in progress are still sent.
    func close() {
        server.stop()
        socket.shutDown()
    }
}

/// The URL that is passed to the browser. It redirects programs of this user to the login page.
/// Where the system does not show which user a program belongs to, it redirects once, and not to a
/// secret page.
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
