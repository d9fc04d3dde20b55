import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeySSH
import Synchronization

/// One client's connection, on its own thread: reads requests, and writes the answers of the
/// service.
///
/// During a request it watches the connection. If the client closes it, the request's task is
/// cancelled, which closes the prompt.
struct AgentConnection {
    /// The time for the rest of a message after its first byte, and for the client to accept an
    /// answer.
    private static let messageTimeout: Duration = .seconds(10)

    private let descriptor: Int32
    private let client: AgentClient
    private let service: AgentService
    private let connections: OpenConnections

    init(
        _ descriptor: Int32, _ client: AgentClient, service: AgentService,
        among connections: OpenConnections
    ) {
        (self.descriptor, self.client) = (descriptor, client)
        (self.service, self.connections) = (service, connections)
    }

    /// Serves until the client closes the connection, or breaks the protocol, or the connection is
    /// closed for another one.
    func serve() {
        let session = ClientSession(client)
        let other = service.otherAgent.map {
            OtherAgentConnection($0, client: descriptor, clientProcess: client.process)
        }
        var buffer = FrameBuffer()
        while true {
            do throws(SSHFormatError) {
                guard let message = try receive(&buffer) else { return }
                connections.answer(descriptor, isAnswered: true)
                let answer = answer(message, session).map { reply in
                    Self.answer(message, reply, session.isOfAgent ? nil : other)
                }
                if session.origin.isForwarded { connections.forward(descriptor) }
                connections.answer(descriptor, isAnswered: false)
                guard let answer, send(answer.frame) else { return }
            } catch {
                service.refusals.notice("closed a connection: \(error)", session)
                return
            }
        }
    }

    /// Completes a reply with the part of the other agent.
    private static func answer(
        _ message: [UInt8], _ reply: AgentReply, _ other: OtherAgentConnection?
    ) -> AgentAnswer {
        switch reply {
        case .own(let answer): return answer
        case .bound(let answer):
            other?.bind(message)
            return answer
        case .identities(let own):
            return .identities(AgentIdentity.merged(own, other?.identities() ?? []))
        case .otherSignature: return other?.signature(message) ?? .failure
        case .other: return other?.answer(message) ?? .failure
        }
    }

    /// - Returns: nil if the client closed the connection.
    private func receive(_ buffer: inout FrameBuffer) throws(SSHFormatError) -> [UInt8]? {
        var deadline: ContinuousClock.Instant?
        while true {
            if let message = try buffer.next() { return message }
            guard wait(POLLIN, until: deadline) else {
                throw SSHFormatError(
                    "a message did not arrive completely within \(Self.messageTimeout)")
            }
            let size = min(try buffer.missing(), 16 * 1024)
            var bytes = [UInt8](repeating: 0, count: size)
            let count = read(descriptor, &bytes, size)
            guard count > 0 else {
                guard count < 0, errno == EAGAIN || errno == EINTR else { return nil }
                continue
            }
            buffer.append(bytes.prefix(count))
            deadline = deadline ?? .now + Self.messageTimeout
        }
    }

    private func send(_ bytes: [UInt8]) -> Bool {
        Poll.send(bytes, to: descriptor, until: .now + Self.messageTimeout)
    }

    /// - Returns: false after the deadline.
    private func wait(_ events: Int32, until deadline: ContinuousClock.Instant?) -> Bool {
        (try? Poll.wait(for: descriptor, events, until: deadline)) == true
    }

    /// Runs the request in a task, and blocks this thread until the task ends.
    ///
    /// - Returns: nil if the client closed the connection in the meantime.
    private func answer(_ message: [UInt8], _ session: ClientSession) -> AgentReply? {
        let finished = WakeUp()
        guard finished.isOpen else { return .own(.failure) }
        let result = ReplyBox()
        let task = Task { [service] in
            let reply = await service.answer(message, session)
            result.reply.withLock { $0 = reply }
            finished.wake()
        }
        var isOpen = true
        while true {
            // A hang-up is always reported.
            let watched = [(isOpen ? descriptor : -1, Int32(0))]
            guard let ready = try? Poll.wait(for: watched, until: nil, wakeUp: finished) else {
                task.cancel()
                return nil
            }
            if ready.events[0] != 0 {
                isOpen = false
                task.cancel()
            }
            if ready.isWoken { return isOpen ? result.reply.withLock(\.self) : nil }
        }
    }

    private final class ReplyBox: Sendable {
        let reply = Mutex<AgentReply?>(nil)
    }
}

/// The state of one client's connection. Its requests are served one after another.
final class ClientSession: Sendable {
    let client: AgentClient
    let bindings = Mutex(SessionBindings())
    private let ownKeysOnly = Atomic(false)

    init(_ client: AgentClient) { self.client = client }

    /// Whether the client is an agent that asks for the keys of this agent only.
    var isOfAgent: Bool { ownKeysOnly.load(ordering: .sequentiallyConsistent) }

    func limitToOwnKeys() { ownKeysOnly.store(true, ordering: .sequentiallyConsistent) }

    var origin: RequestOrigin {
        RequestOrigin(process: client.process, bindings: bindings.withLock(\.self))
    }
}
