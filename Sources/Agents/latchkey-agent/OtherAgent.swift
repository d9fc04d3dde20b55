import Glibc
import LatchkeyPlatform
import LatchkeySSH
import Logging
import Synchronization

/// The user's other SSH agent, which gets the requests for keys that this agent does not have.
final class OtherAgent: Sendable {
    let path: String
    /// The time for an answer for which no user is needed.
    let quickLimit: Duration
    private let ownPath: String?
    private let log: Logger
    private let refusals: RefusalLog
    private let pausedUntil = Mutex<ContinuousClock.Instant?>(nil)

    /// - Returns: nil if the path is the one of this agent's own socket.
    init?(
        path: String, quickLimit: Duration, besides own: ListeningSocket, log: Logger,
        refusals: RefusalLog
    ) {
        (self.path, self.quickLimit, self.log, self.refusals) = (path, quickLimit, log, refusals)
        ownPath = own.path
        if isOwn { return nil }
    }

    /// Whether both paths are of one socket now. A link to it can have appeared later.
    private var isOwn: Bool {
        ownPath.map { UNIXSocketAddress.isOneFile($0, path) } ?? false
    }

    /// Connects for one client.
    ///
    /// - Parameter client: The process of the client.
    /// - Returns: A non-blocking descriptor; nil if the agent is not there, does not answer, is one
    ///   of another user, or is this agent or the client, which would be a ring.
    func connect(for client: Int32) -> Int32? {
        let isPaused = pausedUntil.withLock { $0.map { $0 > .now } ?? false }
        guard !isPaused, !isOwn, let address = UNIXSocketAddress(path: path) else { return nil }
        let type = __socket_type(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue)
        do throws(SystemError) {
            let descriptor = try address.connectedSocket(type)
            let peer = PeerCredentials(of: descriptor)
            // When an agent with a socket in /tmp has ended, another user can create its path, and
            // would get the private keys of ssh-add.
            guard let peer, [geteuid(), 0].contains(peer.user) else {
                refusals.warning("the other agent at \(path) belongs to another user")
                close(descriptor)
                return nil
            }
            // 0: the processes are in another PID namespace.
            guard peer.process != client || client == 0 else {
                close(descriptor)
                return nil
            }
            return descriptor
        } catch {
            log.info("the other agent cannot be reached: \(error)", metadata: ["socket": "\(path)"])
            return nil
        }
    }

    /// The agent did not answer in time, or with an invalid answer.
    func failed(_ reason: String, isLate: Bool) {
        // After a late answer, no client waits for the agent for half a minute.
        if isLate { pausedUntil.withLock { $0 = .now + quickLimit * 15 } }
        refusals.warning("the other agent at \(path) \(reason)")
    }
}

/// The connection to the other agent that belongs to one client's connection, so that the other
/// agent applies its own rules to the sessions of the client. Used on the client's thread.
final class OtherAgentConnection {
    /// The time for an answer that may need the user: a PIN, a touch or a confirmation.
    private static let userLimit: Duration = .seconds(300)

    private enum State {
        case unused
        case open(Int32)
        /// A new connection would not have the sessions of this one.
        case ended
    }

    private let agent: OtherAgent
    private let client: Int32
    private let clientProcess: Int32
    private var state = State.unused

    /// - Parameters:
    ///   - client: The client's connection. If it is closed, the exchange ends.
    ///   - clientProcess: The process of the client.
    init(_ agent: OtherAgent, client: Int32, clientProcess: Int32) {
        (self.agent, self.client, self.clientProcess) = (agent, client, clientProcess)
    }

    deinit { end() }

    /// The keys of the other agent; none if it does not answer.
    func identities() -> [AgentIdentity] {
        let listing = checked(exchange(AgentRequest.listMessage, within: agent.quickLimit)) {
            message throws(SSHFormatError) in try OtherAgentAnswer.identities(message)
        }
        guard let listing else { return [] }
        if listing.unreadable > 0 {
            agent.failed(
                "lists keys that ssh cannot read, and they are omitted: \(listing.unreadable)",
                isLate: false)
        }
        return listing.identities
    }

    func signature(_ request: [UInt8]) -> AgentAnswer {
        checked(exchange(request, within: Self.userLimit)) { message throws(SSHFormatError) in
            try OtherAgentAnswer.signature(message)
        } ?? .failure
    }

    func answer(_ request: [UInt8]) -> AgentAnswer {
        checked(exchange(request, within: Self.userLimit)) { message throws(SSHFormatError) in
            try OtherAgentAnswer.other(message)
        } ?? .failure
    }

    /// Passes a session on. The other agent keeps the result.
    func bind(_ request: [UInt8]) { _ = exchange(request, within: agent.quickLimit) }

    private func checked<Value>(
        _ message: [UInt8]?, _ read: ([UInt8]) throws(SSHFormatError) -> Value
    ) -> Value? {
        guard let message else { return nil }
        do throws(SSHFormatError) { return try read(message) } catch {
            agent.failed("sent an invalid answer: \(error)", isLate: false)
            end()
            return nil
        }
    }

    private func end() {
        if case .open(let descriptor) = state { close(descriptor) }
        state = .ended
    }

    /// Sends a message and receives the answer.
    ///
    /// - Returns: nil without an answer. The connection has then ended.
    private func exchange(_ message: [UInt8], within limit: Duration) -> [UInt8]? {
        switch state {
        case .open(let descriptor): return exchange(message, on: descriptor, within: limit)
        case .ended: return nil
        case .unused:
            guard let descriptor = introducedConnection() else { return nil }
            return exchange(message, on: descriptor, within: limit)
        }
    }

    /// Connects, and says that the other agent must not pass requests on. Most agents answer with a
    /// failure. Some close the connection at a request that they do not know, and get no such request
    /// on the next connection: they are not agents of this kind, so there is no ring.
    private func introducedConnection() -> Int32? {
        state = .ended
        guard let descriptor = agent.connect(for: clientProcess) else { return nil }
        state = .open(descriptor)
        let deadline = ContinuousClock.now + agent.quickLimit
        do throws(SSHFormatError) {
            let exchange = AgentExchange(descriptor, whileOpen: client)
            if try exchange.answer(to: AgentRequest.ownKeysMessage, until: deadline) != nil {
                return descriptor
            }
            end()
            return nil
        } catch {
            end()
            guard ContinuousClock.now < deadline else {
                agent.failed("\(error)", isLate: true)
                return nil
            }
        }
        guard let second = agent.connect(for: clientProcess) else { return nil }
        state = .open(second)
        return second
    }

    private func exchange(
        _ message: [UInt8], on descriptor: Int32, within limit: Duration
    ) -> [UInt8]? {
        let deadline = ContinuousClock.now + limit
        do throws(SSHFormatError) {
            let exchange = AgentExchange(descriptor, whileOpen: client)
            if let answer = try exchange.answer(to: message, until: deadline) { return answer }
        } catch {
            agent.failed("\(error)", isLate: ContinuousClock.now >= deadline)
        }
        end()
        return nil
    }
}
