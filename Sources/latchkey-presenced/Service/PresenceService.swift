import FoundationEssentials
import Latchkey
import LatchkeyPresence
import LatchkeyTPM
import Logging

/// `org.latchkey.Presence1`: looks at a finger of the user who calls, and has the TPM's key approve what that user's
/// program asked for.
///
/// Who calls is the bus's word, never the message's. What is signed is computed here. One finger is looked at at a time.
actor PresenceService {
    /// How long a person may take. Less than an approval holds, since that counts from the TPM's nonce.
    static let longestWait: Duration = .seconds(25)

    /// What the bus has for the service, in the order in which it came.
    private enum Event {
        case call(BusMessage, BusCredentials)
        /// One call too many.
        case excess(BusMessage)
        /// A client has left the bus.
        case left(String)
        /// A finger was enrolled.
        case enrolled
    }

    /// A request that was not answered yet.
    struct Pending {
        let entry: ApprovalQueue.Entry
        let message: BusMessage
        let request: ApprovalRequest
        let requester: Requester
        let arrival: ContinuousClock.Instant
        /// The look at the finger, once it is this one's turn.
        var work: Task<Void, Never>?
        /// Ends the wait for a turn.
        var clock: Task<Void, any Error>?
    }

    let bus: Bus
    let authority: ApprovalAuthority
    let reader: FingerprintReader
    let prints: EnrolledPrints
    let timeLimit: Duration
    let log: Logger

    var queue = ApprovalQueue()
    var limit = AttemptLimit()
    var pending: [UInt64: Pending] = [:]
    private var nextID: UInt64 = 0
    /// How many programs may show a user's prompts.
    private static let watchersPerUser = 8
    /// Programs that show a user's prompts, by unique name.
    private var watchers: [String: UInt32] = [:]

    private let backlog = Backlog()
    private var calls = RateLimit(perMinute: 120)
    private var approvals = RateLimit(perMinute: 30)
    /// The calls that the TPM or fprintd is at work for, by user.
    private var underWay = Occupancy<UInt32>(perKind: 4, total: 16)

    init(bus: Bus, authority: ApprovalAuthority, prints: EnrolledPrints, timeLimit: Duration, log: Logger) {
        self.bus = bus
        self.authority = authority
        reader = FingerprintReader(bus: bus)
        self.prints = prints
        self.timeLimit = min(timeLimit, Self.longestWait)
        self.log = log
    }

    /// Serves until the connection to the bus ends or the task is cancelled.
    ///
    /// - Parameter onReady: Called once the name is owned.
    func run(onReady: () -> Void) async throws(BusError) {
        let (events, sink) = AsyncStream.makeStream(of: Event.self)
        await noteEnrolments()
        try await bus.serve(PresenceWire.path) { [backlog, bus] call in
            switch backlog.enter(call) {
            case .serve(let caller): sink.yield(.call(call, caller))
            case .ask: Task { await Self.identify(call.sender, on: bus, backlog, sink) }
            case .keep: break
            case .refuse: return .failure(Backlog.tooMany)
            }
            return nil
        }
        _ = try await bus.subscribe(.ownerChanges()) { [backlog] change in
            guard change.arguments.last?.string == "", let name = change.arguments.first?.string else { return }
            // On the bus's thread, as the answers about clients are: none of them comes after the client has left.
            backlog.forget(name)
            sink.yield(.left(name))
        }
        _ = try await bus.subscribe(FingerprintReader.enrolmentRule) { signal in
            if signal.arguments.first?.string == FingerprintReader.enrolmentCompleted { sink.yield(.enrolled) }
        }
        try await describeParents()
        try await bus.own(PresenceWire.name)
        onReady()
        for await event in events {
            switch event {
            case .call(let message, let caller):
                await receive(message, from: caller)
                backlog.leave(caller.user)
            case .excess(let message): await reply(message, .failure(Backlog.tooMany))
            case .left(let client): await forget(client)
            case .enrolled: await noteEnrolment()
            }
        }
    }

    /// Whoever looks for objects from the root on finds the one there is.
    private func describeParents() async throws(BusError) {
        for (path, child) in [("/", "org"), ("/org", "latchkey"), ("/org/latchkey", "Presence1")] {
            try await bus.serve(path) { Introspection.answer($0, child: child) }
        }
    }

    // MARK: Calls

    /// Asks the bus who a client is, and hands over the client's calls that were kept until then.
    private static func identify(
        _ client: String, on bus: Bus, _ backlog: Backlog, _ sink: AsyncStream<Event>.Continuation
    ) async {
        await bus.askCredentials(of: client) { answer in
            for (call, step) in backlog.learn(try? answer.get(), of: client) {
                if case .serve(let caller) = step { sink.yield(.call(call, caller)) } else { sink.yield(.excess(call)) }
            }
        }
    }

    private func receive(_ message: BusMessage, from caller: BusCredentials) async {
        if let answer = Introspection.answer(message) { return await reply(message, answer) }
        guard message.interface == PresenceWire.interface || message.interface.isEmpty,
            let method = PresenceWire.Method(rawValue: message.member)
        else { return await reply(message, .failure(Self.unknownMethod)) }
        let requester = Requester(client: message.sender, caller)
        // It frees the reader, and is never one too many.
        if method == .cancel {
            await perform(queue.cancel(client: message.sender))
            return await reply(message, .success([]))
        }
        // Others are no user of fprintd's, and so many that limits for each of them are none.
        guard requester.userName != nil else {
            return await reply(message, .failure(Self.error(.unavailable, "the user \(requester.user) has no name")))
        }
        guard calls.admit(requester.user, at: .now) else {
            return await reply(message, .failure(Self.tooManyRequests))
        }
        switch method {
        case .subscribe: await reply(message, watch(requester))
        case .approve: await approve(message, requester)
        case .state, .terms, .makePIN, .resetPIN, .cancel:
            guard underWay.enter(requester.user) else {
                return await reply(message, .failure(Self.error(.transient, "too many are served at once")))
            }
            // The TPM takes its time; others are served meanwhile.
            Task {
                await self.answer(method, message, requester)
                self.underWay.leave(requester.user)
            }
        }
    }

    private func watch(_ requester: Requester) -> Bus.Reply {
        let others = watchers.count { $0.key != requester.client && $0.value == requester.user }
        guard others < Self.watchersPerUser else { return .failure(Self.tooManyRequests) }
        watchers[requester.client] = requester.user
        return .success([])
    }

    private func answer(_ method: PresenceWire.Method, _ message: BusMessage, _ requester: Requester) async {
        do throws(KeystoreError) {
            let values: [BusValue] =
                switch method {
                case .state: PresenceWire.arguments(await state(for: requester))
                case .terms: PresenceWire.arguments(try await terms(for: requester, message.arguments))
                case .makePIN: PresenceWire.arguments(try await makePIN(for: requester))
                case .resetPIN: try await resetPIN(requester, message.arguments)
                case .approve, .cancel, .subscribe: []
                }
            await reply(message, .success(values))
        } catch {
            await reply(message, .failure(PresenceWire.error(error)))
        }
    }

    private func approve(_ message: BusMessage, _ requester: Requester) async {
        guard let request = PresenceWire.request(message.arguments) else {
            return await reply(message, .failure(Self.error(.invalidInput, "the request can't be read")))
        }
        do throws(KeystoreError) {
            try authority.check(request)
        } catch {
            return await reply(message, .failure(PresenceWire.error(error)))
        }
        if request.policy.requirement == .biometryCurrentSet, !requester.isAccount {
            return await reply(message, .failure(PresenceWire.error(Self.noAccount("ask for a finger"))))
        }
        guard approvals.admit(requester.user, at: .now) else {
            return await reply(message, .failure(Self.tooManyRequests))
        }
        if let lock = limit.lock(of: requester.user, at: .now) {
            return await reply(message, .failure(Self.locked(lock)))
        }
        nextID += 1
        let entry = ApprovalQueue.Entry(id: nextID, client: message.sender, user: requester.user)
        pending[nextID] = Pending(
            entry: entry, message: message, request: request, requester: requester, arrival: .now)
        await perform(queue.enqueue(entry))
    }

    private func makePIN(for requester: Requester) async throws(KeystoreError) -> UnsetUserPIN {
        guard requester.isAccount else { throw Self.noAccount("make room for a PIN") }
        return try await authority.makePIN(for: requester.user)
    }

    private func resetPIN(_ requester: Requester, _ arguments: [BusValue]) async throws(KeystoreError) -> [BusValue] {
        guard requester.user == 0 else {
            throw KeystoreError(
                operation: "reset a PIN's count", code: .refused, reason: "only the administrator may do it",
                recovery: "Use your finger, or ask an administrator.")
        }
        guard arguments.count == 1, let user = arguments[0].uint32 else {
            throw .invalidInput("reset a PIN's count", "the user is none")
        }
        try await authority.resetPIN(of: user)
        log.notice("the administrator reset a PIN", metadata: ["uid": "\(user)"])
        return []
    }

    // MARK: Telling

    /// Tells who asked, and who watches for the same user.
    func report(_ progress: FingerProgress, _ pending: Pending) async {
        let text = pending.requester.prompt(pending.request.context)
        let watching = watchers.filter { $0.value == pending.requester.user }.map(\.key)
        for client in Set([pending.entry.client] + watching) {
            let target = BusTarget(client, PresenceWire.path, PresenceWire.interface, PresenceWire.progress)
            // Who is gone need not be told.
            try? await bus.signal(target, [.string(progress.rawValue), .string(text)])
        }
    }

    func reply(_ message: BusMessage, _ reply: Bus.Reply) async {
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

    static func error(_ code: KeystoreError.Code, _ reason: String, recovery: String = "Try again.") -> BusError {
        PresenceWire.error(KeystoreError(operation: "ask for a finger", code: code, reason: reason, recovery: recovery))
    }

    private static let tooManyRequests = error(
        .transient, "there were too many requests in a minute", recovery: "Wait a minute.")

    /// What it asks for would leave something in the TPM for good. Clients do without, as where the TPM is full.
    static func noAccount(_ operation: String) -> KeystoreError {
        .unsupported(
            operation, "only root and users with an account have room in the TPM",
            recovery: "Use ‘biometry-any’, or a key with a PIN of its own.")
    }

    static func locked(_ lock: Duration) -> BusError {
        error(
            .lockedOut, "too many other fingers were shown",
            recovery: "Wait until \(end(of: lock).formatted(.iso8601)), or use your PIN.")
    }

    /// When that is by the clock of the day, as it is set now.
    static func end(of lock: Duration) -> Date {
        Date().addingTimeInterval(Double(lock.components.seconds))
    }
}
