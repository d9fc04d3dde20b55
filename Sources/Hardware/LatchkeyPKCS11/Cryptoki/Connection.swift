internal import Glibc
internal import Synchronization

/// A token's session, and its recovery after an error. Used only on the token's thread, which makes
/// it safe to share.
final class Connection: @unchecked Sendable {
    let identity: TokenIdentity
    private let call: Caller
    private let thread: TokenThread
    private let login: LoginReuse
    private let settlingTime: Duration
    private var session: Session?
    private var epoch = 0
    /// The use of the card by the operation in progress.
    private var use: CardUse?
    private let knownReader = Mutex("")
    /// Whether a proof was sent since the token was last locked.
    private var isUnlocked = false
    /// Whether a task repeats a failed reset.
    private var resetsAgain = false

    private static let maximumResets = 30
    /// The time between resets, and for one that blocks other work on the thread.
    private static let resetInterval: Duration = .seconds(1)

    init(
        call: Caller, thread: TokenThread, login: LoginReuse, identity: TokenIdentity,
        settlingTime: Duration
    ) {
        self.call = call
        self.thread = thread
        self.login = login
        self.identity = identity
        self.settlingTime = settlingTime
    }

    /// Does `work` with a session, and repeats it as ``RecoveryPolicy`` decides. Afterwards the card is
    /// locked, unless a policy keeps the login.
    func withRecovery<R>(_ work: (Session) throws(CryptokiError) -> R) throws(CryptokiError) -> R {
        let recovery = RecoveryPolicy(call.module.profile)
        if call.module.profile.hasCards, !reader.isEmpty { use = CardUse(of: reader) }
        return try end(
            Result { () throws(CryptokiError) in
                do throws(CryptokiError) {
                    return try recovery.repeating(on: thread) { () throws(CryptokiError) in
                        let session = try open(recovery)
                        try recovery.checkProof()
                        session.beginAttempt(recovery)
                        defer {
                            recovery.hasLoggedIn = session.hasLoggedIn
                            recovery.hasUnsettledProof = session.hasUnsettledProof
                        }
                        return try work(session)
                    } after: { (step, error) throws(CryptokiError) in
                        try recover(step, after: error)
                    }
                } catch {
                    throw finalError(error)
                }
            })
    }

    /// Erases the token (`C_InitToken`). Closes all sessions of this process on the token first,
    /// because a token with an open session can't be initialized (`CKR_SESSION_EXISTS`).
    ///
    /// - Parameters:
    ///   - information: The expected state of the token.
    ///   - label: 1 to 32 bytes.
    /// - Throws: `tokenAbsent` if the token was initialized or erased since.
    func initializeToken(
        _ information: TokenInformation, label: String, securityOfficer proof: LoginProof
    ) throws(CryptokiError) {
        close()
        if call.module.needsInitialization { try restartModule() }
        let result = Result { () throws(CryptokiError) in
            let slot = try findSlot(RecoveryPolicy(call.module.profile))
            let flags = try call.tokenInformation(slot: slot).flags
            guard flags.contains(.initialized) == information.flags.contains(.initialized) else {
                throw CryptokiError(.tokenAbsent, reason: "the token has changed since it was read")
            }
            try call.initializeToken(slot: slot, label: label, securityOfficer: proof)
        }
        return try end(result)
    }

    func close() {
        session?.close()
        session = nil
    }

    /// Ends an operation. Locks the card for other programs unless a policy keeps the login.
    ///
    /// A failed reset does not change the result, because a new key or PIN then exists on the
    /// token. The card is reset again in the background, after the next operation, and at exit.
    private func end<R>(_ result: Result<R, CryptokiError>) throws(CryptokiError) -> R {
        let use = use
        self.use = nil
        if !login.isKept, !lockCard(use, within: call.deadlines.data) { resetLater() }
        return try result.get()
    }

    /// Locks the card if this process has unlocked it, or another process left that to this one.
    ///
    /// - Returns: Whether nothing is left to do: the card is locked, or will be by another process
    ///   that uses it.
    private func lockCard(_ use: CardUse?, within limit: Duration) -> Bool {
        let module = call.module
        guard use?.end(owingReset: isUnlocked) ?? isUnlocked else {
            if isUnlocked, module.profile.locking == .finalization { module.mustInitialize() }
            forgetProof()
            return true
        }
        if isUnlocked, module.profile.locking == .finalization {
            close()
            module.finalize(by: call)
        }
        do throws(CryptokiError) {
            if module.profile.locking != .logout {
                let search = CardSearch.paused()
                defer { withExtendedLifetime(search) {} }
                try CardReset.reset(reader: reader, within: limit)
            }
        } catch {
            return false
        }
        use?.didReset()
        forgetProof()
        return true
    }

    private func forgetProof() {
        isUnlocked = false
        UnlockedCards.shared.remove(ObjectIdentifier(self))
    }

    /// Resets the card every second on the token's thread until that succeeds, at most
    /// ``maximumResets`` times. The task outlives the operation.
    private func resetLater() {
        guard !resetsAgain else { return }
        resetsAgain = true
        Task { [self] in
            for number in 1...Self.maximumResets {
                try? await Task.sleep(for: Self.resetInterval)
                let isDone = try? await thread.run { [self] () throws(CryptokiError) in
                    // A new operation may have locked the token, or logged in under a policy that
                    // keeps the login.
                    let isDone =
                        !isUnlocked || login.isKept
                        || lockCard(CardUse(of: reader), within: Self.resetInterval)
                    resetsAgain = !isDone && number < Self.maximumResets
                    return isDone
                }
                // After an error the thread accepts no work: the card is reset at exit.
                if isDone != false { return }
            }
        }
    }

    /// The description of the token's slot, for any thread: the token's one may hang.
    private(set) var reader: String {
        get { knownReader.withLock { $0 } }
        set { knownReader.withLock { $0 = newValue } }
    }

    private func noteProof() {
        isUnlocked = true
        if call.module.profile.locking != .logout {
            UnlockedCards.shared.add(ObjectIdentifier(self), reader: reader)
        }
    }

    func restartModule() throws(CryptokiError) {
        close()
        try call.module.reinitialize(after: call.module.epoch, by: call)
    }

    private func open(_ recovery: RecoveryPolicy) throws(CryptokiError) -> Session {
        if call.module.needsInitialization {
            try call.module.reinitialize(after: call.module.epoch, by: call)
        }
        let present = call.module.epoch
        if let session, epoch == present { return session }
        session = nil
        var call = call
        call.epoch = present
        let slot = try findSlot(recovery)
        if call.module.profile.hasCards {
            call.reader = reader
            if use?.reader != reader { use = CardUse(of: reader) }
        }
        let new = try Session(slot: slot, call: call, thread: thread) { [unowned self] in
            noteProof()
        }
        session = new
        epoch = present
        return new
    }

    private func recover(_ step: RecoveryPolicy.Step, after error: CryptokiError)
        throws(CryptokiError)
    {
        switch step {
        case .logInAgain: return
        case .reopenSession: return close()
        // The system notices a removal after this time.
        case .findTokenAgain: usleep(settlingTime)
        case .readTokenAgain:
            try call.module.reinitialize(after: call.module.epoch, by: call)
        case .restartModule:
            // A module may have read the card while it was removed.
            if error.kind == .stale || error.kind == .keyAbsent { usleep(settlingTime) }
            try call.module.reinitialize(after: epoch == 0 ? call.module.epoch : epoch, by: call)
        }
        session = nil
    }

    /// The current slot of the token.
    private func findSlot(_ recovery: RecoveryPolicy) throws(CryptokiError) -> UInt {
        var found: [(TokenInformation, UInt)] = []
        let slots = try call.slots(withToken: true)
        recovery.showsNoToken = slots.isEmpty
        for slot in slots {
            do throws(CryptokiError) {
                let information = try call.tokenInformation(slot: slot)
                if identity.matches(information) { found.append((information, slot)) }
            } catch {
                // Ignore an error of another slot's token; an error of the module is thrown.
                guard let value = error.returnValue,
                    ![.deviceError, .cryptokiNotInitialized].contains(value)
                else { throw error }
            }
        }
        let slot = try identity.only(of: found, in: call.module)
        reader = try call.slotDescription(slot)
        return slot
    }

    /// The error that ends the recovery. The next operation opens a new session.
    private func finalError(_ error: CryptokiError) -> CryptokiError {
        switch error.returnValue {
        case .deviceRemoved, .tokenNotPresent, .tokenNotRecognized, .slotIDInvalid:
            session = nil
            return CryptokiError(
                .tokenAbsent, function: error.function,
                reason: "the token \(identity) was removed: \(error.reason)")
        case .deviceError, .sessionHandleInvalid, .sessionClosed, .cryptokiNotInitialized:
            session = nil
        default: break
        }
        return error
    }
}

/// Decides what a failure of an operation on a token, or of a search for tokens, means, and what is
/// repeated. No other code repeats work after an error of a module.
///
/// Each step is tried once per operation. The steps were found by experiment: the system notices a
/// removal within half a second, and the token may return in another slot; Yubico's module answers
/// `CKR_DEVICE_ERROR` until it is restarted. A proof that the token did not accept is never sent
/// again: the remaining steps then only find out whether the token is still present.
final class RecoveryPolicy {
    enum Step: Hashable {
        /// Log in again with the same proof: the token accepted it in this operation, and another
        /// program has reset the card since.
        case logInAgain
        /// Open a new session in the slot, and find the keys again.
        case reopenSession
        /// Wait until the system has noticed the removal, search the token in all slots, and open a
        /// session there.
        case findTokenAgain
        /// Finalize and initialize the module, then find the token again.
        case restartModule
        /// The same after a short wait, because another process may be writing to the token.
        case readTokenAgain(attempt: Int)
    }

    /// How often a token is read again that other processes may be writing to.
    static let maximumRereadings = 10

    private let profile: ModuleProfile
    private let isSearch: Bool
    /// Whether the module can show an old state of its tokens until it is restarted.
    private let cachesState: Bool
    private var tried: Set<Step> = []
    /// The failure after which `work` is not repeated: the token may have counted the proof as
    /// wrong, or the user did not touch it.
    private var failedProof: CryptokiError?
    private var isConcluded = false
    /// Whether the token may have counted a proof of the last attempt as wrong.
    var hasUnsettledProof = false
    /// Whether the token accepted a login in the last attempt.
    var hasLoggedIn = false
    /// Whether the module listed no token at all.
    var showsNoToken = false

    /// For an operation with a token.
    init(_ profile: ModuleProfile = .generic) {
        self.profile = profile
        isSearch = false
        cachesState = profile.cachesStaleState
    }

    /// For a search in a module, which has no session. An isolated OpenSC still shows the
    /// certificates of a card that was replaced by another one.
    init(searching module: Module) {
        profile = module.profile
        isSearch = true
        cachesState = profile.cachesStaleState || profile.family == .opensc && module.isIsolated
    }

    /// Whether the module may show an old state that a step would correct.
    var mayBeStale: Bool {
        !steps(for: CryptokiError(.stale, reason: "")).allSatisfy(tried.contains)
    }

    /// Whether a step was taken in this operation.
    var isRepeating: Bool { !tried.isEmpty }

    /// Whether the module was restarted in this operation.
    var hasRestarted: Bool { tried.contains(.restartModule) }

    /// Does `work`, and repeats it after each step that ``next(after:)`` names, as long as a task
    /// waits for the result.
    func repeating<R>(
        on thread: TokenThread, _ work: () throws(CryptokiError) -> R,
        after step: (Step, CryptokiError) throws(CryptokiError) -> Void
    ) throws(CryptokiError) -> R {
        while true {
            do throws(CryptokiError) {
                return try work()
            } catch {
                guard !thread.isWorkAbandoned, let next = next(after: error) else { throw error }
                if case .readTokenAgain(let attempt) = next {
                    // At least 10 ms, and not the same time in each process that waits.
                    usleep(.random(in: 10_000...10_000 + 40_000 * UInt32(clamping: attempt - 1)))
                }
                try step(next, error)
            }
        }
    }

    /// Throws the failure of a proof that must not be sent again. The token is present.
    func checkProof() throws(CryptokiError) {
        guard let failedProof else { return }
        isConcluded = true
        throw failedProof
    }

    /// - Returns: nil if no step is left.
    func next(after error: CryptokiError) -> Step? {
        if isConcluded { return nil }
        if hasUnsettledProof || error.kind == .touchTimedOut { failedProof = failedProof ?? error }
        for step in steps(for: error) where tried.insert(step).inserted { return step }
        return nil
    }

    private func steps(for error: CryptokiError) -> [Step] {
        let restart = cachesState ? [Step.restartModule] : []
        let isUncertain =
            error.returnValue == .generalError
            || error.kind == .tokenAbsent || error.kind == .stale && isSearch
        if profile.failsDuringWrites, isUncertain {
            return (1...Self.maximumRereadings).map { .readTokenAgain(attempt: $0) }
        }
        let steps: [Step] =
            switch error.kind {
            case .returned(let value): Self.steps(for: value)
            case .loginNeeded: [.logInAgain]
            case .tokenAbsent: [.findTokenAgain] + (showsNoToken ? restart : [])
            case .touchTimedOut: [.findTokenAgain]
            case .keyAbsent, .stale: restart
            case .noReaders: profile.cachesStaleState ? restart : []
            default: []
            }
        return steps.filter { step in
            switch step {
            case .logInAgain: hasLoggedIn
            case .reopenSession, .findTokenAgain: !isSearch
            case .restartModule, .readTokenAgain: true
            }
        }
    }

    private static func steps(for value: ReturnValue) -> [Step] {
        switch value {
        case .userNotLoggedIn: [.logInAgain]
        // An aborted operation stays active in its session.
        case .sessionHandleInvalid, .sessionClosed, .objectHandleInvalid, .keyHandleInvalid,
            .operationActive:
            [.reopenSession]
        case .deviceError: [.findTokenAgain, .restartModule]
        // OpenSC answers CKR_GENERAL_ERROR if a card was removed during a signature.
        case .deviceRemoved, .tokenNotPresent, .tokenNotRecognized, .slotIDInvalid, .generalError:
            [.findTokenAgain]
        // Other code in this process finalized it.
        case .cryptokiNotInitialized: [.restartModule]
        default: []
        }
    }
}
