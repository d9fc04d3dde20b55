import FoundationEssentials
import Latchkey
import LatchkeyPlatform
import LatchkeyPresence
import LatchkeyTPM
import Logging

/// The service `org.latchkey.Presence1`: verifies a finger of the calling user, and lets the TPM's
/// key approve the use that the user's program requested.
///
/// The bus identifies the caller; the message does not. The service computes the signed data. It
/// verifies one finger at a time.
///
/// Another user may be able to end the service, so the state that a restart must not reset is on
/// the disk or in the TPM before the answer that depends on it:
/// - fingers that did not match, a running verification (which then counts as one of them), the
///   lockout, and the PINs that end it: on the disk, ``FingerAttempts``
/// - the count of wrong PINs: in the TPM
/// - the users' enrolled fingers: on the disk, with a counter in the TPM
///
/// A restart may reset the rest, which is in memory. Waiting requests and approvals of signatures
/// whose digests follow are gone, so the user must show the finger again. Subscribers see the
/// service leave the bus. The limits on calls only protect the time of the service; fewer of them
/// give no further attempts.
actor PresenceService {
    /// The maximum time for a request. Less than the lifetime of an approval, which starts with the
    /// TPM's nonce.
    static let longestWait: Duration = .seconds(25)

    /// The events from the bus, in order.
    private enum Event {
        case call(BusMessage, Backlog.Caller)
        /// A call above a limit, and whether it gets an answer.
        case excess(BusMessage, isAnswered: Bool)
        /// A client has left the bus.
        case left(String)
        /// A finger was enrolled.
        case enrolled
        /// The machine is about to sleep.
        case sleep
        /// The bus does not take the service's messages.
        case lost(BusError)
    }

    /// What a finger is for.
    enum Goal {
        /// A use of the caller's key.
        case use(ApprovalRequest, BusMessage)
        /// A yes without a key, for an app.
        case evaluation(OwnerStatement, BusMessage)
        /// The sign-in to the machine.
        case signIn(SignIn)
    }

    /// A request without an answer.
    struct Pending {
        let entry: ApprovalQueue.Entry
        let goal: Goal
        let requester: BusRequester
        let arrival: ContinuousClock.Instant
        /// The time for the user.
        let limit: Duration
        /// The verification, while the request runs.
        var work: Task<Void, Never>?
        /// The timeout of the wait.
        var clock: Task<Void, any Error>?
    }

    let bus: Bus
    let authority: ApprovalAuthority
    let reader: FingerprintReader
    let prints: EnrolledPrints
    let timeLimit: Duration
    /// The factor of other time limits.
    let patience: Int
    let log: Logger

    var queue = ApprovalQueue()
    var pending: [UInt64: Pending] = [:]
    /// When the last verification of each user ended, for ``QuietTimes/pause``.
    var lastEnds: [UInt32: ContinuousClock.Instant] = [:]
    var nextID: UInt64 = 0
    /// The maximum number of subscribers of one user.
    private static let watchersPerUser = 8
    /// The subscribers, by unique name, with their user.
    private var watchers: [String: UInt32] = [:]

    /// The time from a call or an answer to the check that the bus takes the service's messages.
    private static let checkInterval: Duration = .seconds(5)
    /// The time limit of the check. On a busy bus, answers take seconds.
    private static let longestCheck: Duration = .seconds(20)
    /// Whether the check is planned or runs.
    private var isChecking = false
    private var sink: AsyncStream<Event>.Continuation?

    private let backlog = Backlog()
    /// By ``Backlog/Caller/share``.
    private var calls = RateLimit<UInt32?>(120, in: .seconds(60))
    var approvals = RateLimit<UInt32>(30, in: .seconds(60))
    /// The calls that use the TPM or fprintd now, by user.
    private var underWay = Occupancy<UInt32>(perKind: 4, total: 16)

    init(
        bus: Bus, authority: ApprovalAuthority, prints: EnrolledPrints, timeLimit: Duration,
        patience: Int, log: Logger
    ) {
        self.bus = bus
        self.authority = authority
        reader = FingerprintReader(bus: bus)
        self.prints = prints
        self.timeLimit = min(timeLimit, Self.longestWait)
        (self.patience, self.log) = (patience, log)
    }

    /// Serves until the connection to the bus ends or the task is cancelled.
    ///
    /// - Parameter onReady: Called when the service owns its name.
    func run(onReady: () throws(BusError) -> Void) async throws(BusError) {
        let (events, sink) = AsyncStream.makeStream(of: Event.self)
        self.sink = sink
        await noteEnrolments()
        try await bus.serve { [backlog, bus] call in
            switch backlog.enter(call) {
            case .serve(let caller): sink.yield(.call(call, caller))
            case .ask:
                Task { await Self.identify(call.sender, on: bus, backlog: backlog, sink: sink) }
            case .keep: break
            case .refuse:
                return .answer(
                    .failure(call.isReadable ? Backlog.tooMany : .unreadableArguments))
            case .ignore: return .ignore
            }
            return .later
        }
        _ = try await bus.subscribe(.ownerChanges()) { [backlog] change in
            guard change.arguments.last?.string == "", let name = change.arguments.first?.string
            else { return }
            // This runs on the bus's thread, like the answers with credentials: none arrives after
            // the client has left.
            if backlog.forget(name) { sink.yield(.left(name)) }
        }
        _ = try await bus.subscribe(FingerprintReader.enrolmentRule) { signal in
            if signal.arguments.first?.string == FingerprintReader.enrolmentCompleted {
                sink.yield(.enrolled)
            }
        }
        _ = try await bus.subscribe(LoginManager.sleepRule) { signal in
            if signal.arguments.first?.bool == true { sink.yield(.sleep) }
        }
        try await bus.own(PresenceWire.name)
        try onReady()
        for await event in events {
            checkBus()
            switch event {
            case .call(let message, let caller):
                await receive(message, from: caller)
                backlog.leave(caller)
            case .excess(let message, isAnswered: true):
                await reply(message, .failure(Backlog.tooMany))
            case .excess(let message, isAnswered: false): await bus.drop(message)
            case .left(let client): await forget(client)
            case .enrolled: await noteEnrolment()
            // Some readers do not answer after a sleep during a verification, until fprintd is
            // restarted.
            case .sleep: await perform(queue.cancelAll())
            case .lost(let error): throw error
            }
        }
    }

    /// Whether no request is served.
    var isIdle: Bool { queue.isEmpty && underWay.isEmpty && backlog.isEmpty }

    /// Checks that the bus takes messages, some time after a call or an answer. Answers that other
    /// programs do not read can prevent it, for all users, until this connection ends.
    private func checkBus() {
        guard !isChecking else { return }
        isChecking = true
        Task {
            try? await Task.sleep(for: Self.checkInterval)
            self.isChecking = false
            do throws(BusError) {
                try await self.bus.flush(within: Self.longestCheck)
            } catch {
                self.sink?.yield(.lost(error))
            }
        }
    }

    // MARK: Calls

    /// Gets a client's credentials from the bus, and passes on the client's stored calls.
    private static func identify(
        _ client: String, on bus: Bus, backlog: Backlog, sink: AsyncStream<Event>.Continuation
    ) async {
        await bus.askCredentials(of: client) { answer in
            for (call, step) in backlog.learn(try? answer.get(), of: client) {
                if case .serve(let caller) = step {
                    sink.yield(.call(call, caller))
                } else {
                    sink.yield(.excess(call, isAnswered: step == .refuse))
                }
            }
        }
    }

    private func receive(_ message: BusMessage, from caller: Backlog.Caller) async {
        let method = Self.method(of: message)
        // A cancellation frees the reader, so no limit applies.
        if method == .cancel { await perform(queue.cancel(client: message.sender)) }
        guard calls.admit(caller.share, at: .now) else {
            guard backlog.mayRefuse(caller) else { return await bus.drop(message) }
            return await reply(message, method == .cancel ? .success([]) : Self.tooManyRequests)
        }
        if let answer = Introspection.answer(message) { return await reply(message, answer) }
        guard let method else { return await reply(message, .failure(Self.unknownMethod)) }
        if let failure = authority.failure {
            return await reply(message, .failure(PresenceWire.error(failure)))
        }
        let requester = BusRequester(client: message.sender, caller.credentials)
        // fprintd does not know users without a name.
        guard requester.userName != nil else {
            return await reply(
                message, Self.refuse(.unavailable, "the user \(requester.user) has no name"))
        }
        switch method {
        case .subscribe: await reply(message, watch(requester))
        case .cancel: await reply(message, .success([]))
        case .approve, .approveSeveral: await approve(message, method, for: requester)
        case .evaluate: await evaluate(message, for: requester)
        case .state, .terms, .complete, .makePIN, .resetPIN, .certifyKey, .users, .forget:
            guard underWay.enter(requester.user) else {
                return await reply(
                    message, Self.refuse(.transient, "too many requests are running"))
            }
            // The TPM is slow, so other calls are served at the same time.
            Task {
                await self.answer(message, method, for: requester)
                self.underWay.leave(requester.user)
            }
        }
    }

    private static func method(of message: BusMessage) -> PresenceWire.Method? {
        guard message.path == PresenceWire.path,
            message.interface == PresenceWire.interface || message.interface.isEmpty
        else { return nil }
        return PresenceWire.Method(rawValue: message.member)
    }

    private func watch(_ requester: BusRequester) -> Bus.Reply {
        let others = watchers.count { $0.key != requester.client && $0.value == requester.user }
        guard others < Self.watchersPerUser else { return Self.tooManyRequests }
        watchers[requester.client] = requester.user
        return .success([])
    }

    private func answer(
        _ message: BusMessage, _ method: PresenceWire.Method, for requester: BusRequester
    ) async {
        do throws(KeystoreError) {
            let values: [BusValue] =
                switch method {
                case .state: PresenceWire.arguments(await state(for: requester))
                case .terms:
                    PresenceWire.arguments(try await terms(for: requester, message.arguments))
                case .complete: try await complete(requester, message.arguments)
                case .makePIN: PresenceWire.arguments(try await makePIN(for: requester))
                case .resetPIN: try await resetPIN(requester, message.arguments)
                case .certifyKey:
                    PresenceWire.arguments(try await certifyKey(requester, message.arguments))
                case .users: PresenceWire.arguments(try users(for: requester))
                case .forget: try await forget(requester, message.arguments)
                case .approve, .approveSeveral, .evaluate, .cancel, .subscribe: []
                }
            await reply(message, .success(values))
        } catch {
            await reply(message, .failure(PresenceWire.error(error)))
        }
    }

    private func complete(_ requester: BusRequester, _ arguments: [BusValue])
        async throws(KeystoreError) -> [BusValue]
    {
        guard let (ticket, use) = PresenceWire.completion(arguments) else {
            throw .invalidInput("the request cannot be read")
        }
        return PresenceWire.arguments(
            try await authority.complete(ticket, use, for: requester.user))
    }

    private func makePIN(for requester: BusRequester) async throws(KeystoreError) -> UnsetUserPIN {
        guard requester.isAccount else { throw Self.noAccount }
        return try await authority.makePIN(for: requester.user)
    }

    // MARK: Telling

    /// Reports progress to the caller and to the user's subscribers.
    func report(_ progress: FingerProgress, _ pending: Pending) async {
        var clients = Set(watchers.filter { $0.value == pending.requester.user }.map(\.key))
        let text: String
        switch pending.goal {
        case .use(let request, _):
            clients.insert(pending.entry.client)
            text = pending.requester.prompt(request.context, usesPRF: !request.further.isEmpty)
        case .evaluation(let statement, _):
            clients.insert(pending.entry.client)
            text = pending.requester.prompt(statement)
        case .signIn(let signIn):
            if progress == .waiting { signIn.onTouch() }
            text = pending.requester.prompt(signIn.program)
        }
        for client in clients {
            let target = BusTarget(
                client, PresenceWire.path, PresenceWire.interface, PresenceWire.progress)
            // The client may have left the bus.
            try? await bus.signal(target, [.string(progress.rawValue), .string(text)])
        }
    }

    func reply(_ message: BusMessage, _ reply: Bus.Reply) async {
        checkBus()
        do throws(BusError) {
            try await bus.reply(to: message, reply)
        } catch {
            log.debug("an answer was not sent", metadata: ["reason": "\(error.message)"])
        }
    }

    private func forget(_ client: String) async {
        watchers[client] = nil
        await perform(queue.cancel(client: client))
    }

    private static let unknownMethod = BusError(
        name: "org.freedesktop.DBus.Error.UnknownMethod", message: "there is no such method")

    static func refuse(
        _ code: CommonErrorCode, _ reason: String, _ recovery: Recovery = "Try again."
    ) -> Bus.Reply {
        .failure(PresenceWire.error(KeystoreError(code: code, reason: reason, recovery: recovery)))
    }

    static let tooManyRequests = refuse(
        .transient, "there were too many requests in a minute", "Wait a minute.")

    /// The request would allocate TPM memory permanently. Clients continue without it, as with a
    /// full TPM.
    static let noAccount = KeystoreError.unsupported(
        "only root and users with an account can allocate memory in the TPM",
        recovery: "Use ‘biometry-any’, or a key with a separate PIN.")
}
