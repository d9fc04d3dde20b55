import Glibc
import Latchkey
import LatchkeyDesktop
import LatchkeyPlatform
import Logging
import Synchronization

/// The socket of the sign-in, `/run/latchkey/login`, which systemd passes to the service. Everybody
/// may connect. Each connection is one request, on a thread of its own, with a deadline for each
/// line. A user above the limits is refused at once, and root's part is kept free; above all of
/// them, clients wait in the socket's queue. A setuid program counts for the user who started it.
final class SignInDoor: Sendable {
    static let connections = 16
    private let server: ConnectionServer
    private let service: SignInService

    /// - Throws: ``KeystoreError`` with code `unavailable` without threads or descriptors.
    init(_ socket: ListeningSocket, _ service: SignInService) throws(KeystoreError) {
        let open = OpenSignIns()
        self.service = service
        server = ConnectionServer(
            socket, limit: Self.connections, ended: { open.remove($0) }
        ) { connection in
            guard let peer = PeerCredentials(of: connection),
                open.add(connection, of: peer.realUser ?? peer.user)
            else { return nil }
            let process = PeerProcess(of: connection, peer)
            return {
                SignInConnection(
                    descriptor: connection, peer: peer, process: process, service: service,
                    open: open
                ).serve()
            }
        }
        guard server.start() else {
            throw KeystoreError(
                operation: "start the sign-in", code: .unavailable,
                reason: "the system has no more threads or files",
                recovery: "Close other programs, then start it again.")
        }
    }

    deinit { server.stop() }

    /// Whether no sign-in is open, also none whose session has yet to fetch a secret.
    var isIdle: Bool {
        get async {
            guard server.isIdle else { return false }
            return await service.isIdle
        }
    }
}

/// The limits on open connections.
final class OpenSignIns: Sendable {
    private struct State {
        /// Connections of users other than root, by ``Account/share(of:hasName:)``.
        var byUser = Occupancy<UInt32?>(perKind: 4, total: 12)
        var shares: [Int32: UInt32?] = [:]
        /// Root's requests, by the user that they name: every user can start sudo many times.
        var byTarget = Occupancy<UInt32>(perKind: 4, total: SignInDoor.connections)
    }

    private let state = Mutex(State())

    /// - Returns: Whether the connection may stay.
    func add(_ connection: Int32, of user: UInt32) -> Bool {
        guard user != 0 else { return true }
        let share = Account.share(of: user)
        return state.withLock { state in
            guard state.byUser.enter(share) else { return false }
            state.shares.updateValue(share, forKey: connection)
            return true
        }
    }

    /// Call it before the descriptor is closed.
    func remove(_ connection: Int32) {
        state.withLock { state in
            guard let share = state.shares.removeValue(forKey: connection) else { return }
            state.byUser.leave(share)
        }
    }

    /// Runs a request about a user.
    func withTarget(_ user: UInt32, of peer: UInt32, _ body: () -> Void) {
        guard peer == 0 else { return body() }
        guard state.withLock({ $0.byTarget.enter(user) }) else { return }
        body()
        state.withLock { $0.byTarget.leave(user) }
    }
}

/// One connection, on a thread that may block. Everything that the client sends is untrusted.
struct SignInConnection {
    /// The time for a request's line.
    private static let requestLimit: Duration = .seconds(2)
    /// The time for the user to answer the prompt.
    private static let promptLimit: Duration = .seconds(120)
    /// The time for an answer to leave.
    private static let sendLimit: Duration = .seconds(2)

    let descriptor: Int32
    let peer: PeerCredentials
    /// nil if it is gone.
    let process: PeerProcess?
    let service: SignInService
    let open: OpenSignIns

    func serve() {
        guard
            let line = read(
                SignInRequest.maximumLength, within: Self.requestLimit * service.patience),
            let (user, request) = SignInRequest.read(line)
        else { return }
        serve(request, for: user)
    }

    private func serve(_ request: SignInRequest, for user: UInt32) {
        let (service, peer) = (service, peer)
        guard !request.isForRootOnly || peer.user == 0,
            run(untilClosed: false, { await service.admits(peer, for: user, request) }) == true
        else { return }
        if case .auth(let name, let service, let terminal) = request {
            return signIn(user, .init(account: name, service: service, terminal: terminal))
        }
        // Before its turn, which others wait for.
        if request.asksForFinger {
            let descriptor = descriptor
            let refusal = run {
                await service.verifyFinger(of: user, by: peer, in: nil) {
                    Self.send(.line("touch"), to: descriptor)
                }
            }
            guard let refusal, isAsking else { return }
            if let refusal {
                send(refusal)
                return
            }
        }
        if let first = run(
            untilClosed: false, { await service.firstAnswer(to: request, for: user) }),
            let first
        {
            guard send(first), first != .line("none") else { return }
        }
        // A client that leaves does not interrupt a change of a record.
        let answer = run(untilClosed: false) { await service.answer(request, for: user, peer) }
        if let answer { send(answer) }
    }

    private func signIn(_ user: UInt32, _ program: SignInService.Program) {
        let (service, peer) = (service, peer)
        // A program that asks waits for the answer itself. Another process may have its id after it.
        guard isAsking, let offer = run({ await service.offer(for: user, to: peer, in: program) })
        else { return }
        guard offer.hasPIN || offer.hasFinger else {
            send(.line(offer.line))
            return
        }
        // Only those that may ask: other users' requests about the user end at once.
        open.withTarget(user, of: peer.user) { ask(offer, user, program) }
    }

    private func ask(
        _ offer: SignInService.Offer, _ user: UInt32, _ program: SignInService.Program
    ) {
        let (service, peer, descriptor) = (service, peer, descriptor)
        guard isAsking, send(.line(offer.line)),
            let line = read(SignInProof.maximumLength, within: Self.promptLimit),
            let proof = SignInProof(line), isAsking
        else { return }
        let answer: SecretBytes?
        switch proof {
        case .pin(let pin):
            guard offer.hasPIN, send(.line("wait")) else { return }
            // The TPM counts the attempt in any case.
            answer = run(untilClosed: false) {
                await service.prove(pin, of: user, by: peer, in: program)
            }
        case .finger:
            guard offer.hasFinger else { return }
            answer = run {
                await service.proveFinger(of: user, by: peer, in: program) {
                    Self.send(.line("touch"), to: descriptor)
                }
            }
        }
        if let answer, isAsking { send(answer) }
    }

    /// Whether the process that connected still runs.
    private var isAsking: Bool { process?.hasEnded == false }

    /// Waits for an asynchronous call.
    ///
    /// - Parameter untilClosed: Whether the call is cancelled when the client sends something, leaves
    ///   or ends; the result is then nil.
    private func run<R: Sendable>(
        untilClosed: Bool = true, _ work: @escaping @Sendable () async -> R
    ) -> R? {
        let wakeUp = WakeUp()
        guard wakeUp.isOpen else { return nil }
        let result = Outcome<R>()
        let task = Task {
            let value = await work()
            result.value.withLock { $0 = value }
            wakeUp.wake()
        }
        let watched =
            untilClosed ? [(descriptor, POLLIN), (process?.descriptor ?? -1, POLLIN)] : []
        let isLeft = (try? Poll.wait(for: watched, until: nil, wakeUp: wakeUp))?.isWoken != true
        guard isLeft else { return result.value.withLock { $0 } }
        task.cancel()
        _ = try? Poll.wait(for: [], until: nil, wakeUp: wakeUp)
        return nil
    }

    private final class Outcome<R: Sendable>: Sendable {
        let value = Mutex<R?>(nil)
    }

    // MARK: Lines

    /// Reads one line. A client that sends more than one line is refused: it answered a prompt
    /// before it was asked.
    private func read(_ maximum: Int, within limit: Duration) -> SecretBytes? {
        try? DeadlineStream(descriptor, until: .now + limit).receiveLine(maximum: maximum)
    }

    @discardableResult
    private func send(_ line: SecretBytes) -> Bool { Self.send(line, to: descriptor) }

    @discardableResult
    private static func send(_ line: SecretBytes, to descriptor: Int32) -> Bool {
        (try? DeadlineStream(descriptor, until: .now + sendLimit).send(line)) != nil
    }
}

extension SignInRequest {
    /// Requests of the PAM module that hand out a secret, or that say what PAM accepted.
    fileprivate var isForRootOnly: Bool {
        switch self {
        case .secret, .learned, .changed: true
        default: false
        }
    }

    fileprivate var asksForFinger: Bool {
        switch self {
        case .enrol(_, _, _, .finger), .renew(_, .finger): true
        default: false
        }
    }

    /// Whether it runs scrypt.
    var usesPassword: Bool {
        switch self {
        case .learned, .changed, .enrol, .renew, .release, .remove: true
        default: false
        }
    }

    /// Whether it uses or changes a record, in ``SignInTurns``.
    fileprivate var takesTurn: Bool {
        switch self {
        case .auth, .secret, .status: false
        default: true
        }
    }
}

extension SignInService {
    /// The answer before scrypt, for which the module waits one second; nil if there is none. For a
    /// password that PAM accepted, the kind of the keyring, or `none`, which is the last answer.
    func firstAnswer(to request: SignInRequest, for user: UInt32) async -> SecretBytes? {
        switch request {
        case .learned(let name, _, _):
            guard let record = await record(of: user, named: name) else { return .line("none") }
            return .line("wait", record.kind.description)
        case .changed: return .line("wait")
        default: return nil
        }
    }

    func answer(_ request: SignInRequest, for user: UInt32, _ peer: PeerCredentials) async
        -> SecretBytes
    {
        guard request.takesTurn else { return await perform(request, for: user, peer) }
        guard await turns.begin(for: user, isRoot: peer.user == 0) else {
            return .line("error", "busy")
        }
        let answer = await perform(request, for: user, peer)
        await turns.end()
        return answer
    }

    private func perform(_ request: SignInRequest, for user: UInt32, _ peer: PeerCredentials) async
        -> SecretBytes
    {
        switch request {
        case .auth: .line("none")
        case .secret(let name, let handle): secret(handle, of: user, named: name, for: peer)
        case .learned(let name, let isChecked, let password):
            await learned(password, isChecked: isChecked, of: user, named: name, by: peer)
        case .changed(let name, let old, let new):
            await changed(from: old, to: new, of: user, named: name, by: peer)
        case .status: await status(of: user, by: peer)
        case .enrol(let kind, let secret, let password, let proof):
            await enrol(kind, secret, password, proof, for: user, by: peer)
        case .renew(let password, let proof): await renew(password, proof, of: user, by: peer)
        case .activate(let generation): await activate(generation, of: user, by: peer)
        case .release(let password): await release(password, of: user, by: peer)
        case .remove(let generation, let password):
            await remove(generation, password, of: user, by: peer)
        }
    }
}
