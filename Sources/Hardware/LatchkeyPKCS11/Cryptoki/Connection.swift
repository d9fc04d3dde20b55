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
    /// Whether the module listed no token at all in the last search, which may be stale.
    private var showsNoToken = false
    private let knownReader = Mutex("")
    /// Whether a proof was sent since the token was last locked.
    private var isUnlocked = false
    /// How often a failed reset will be repeated. More than 0 while a task does so.
    private var resetsLeft = 0

    private static let maximumResets = 30
    private static let resetInterval: Duration = .seconds(1)
    /// How long a repeated reset may block other work on the thread.
    private static let resetLimit: Duration = .seconds(1)

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

    /// Does `work` with a session. After an error follows ``RecoveryPolicy`` and repeats `work`, as
    /// long as a step is left and a task waits for the result. A proof that the token did not
    /// accept ends the work in any case.
    ///
    /// Afterwards the token is locked, unless a policy keeps the login.
    func withRecovery<R>(_ work: (Session) throws(CryptokiError) -> R) throws(CryptokiError) -> R {
        try lock(after: Result { () throws(CryptokiError) in try repeating(work) })
    }

    private func repeating<R>(_ work: (Session) throws(CryptokiError) -> R) throws(CryptokiError)
        -> R
    {
        session?.hasUnsettledProof = false
        var recovery = RecoveryPolicy(call.module.profile)
        // A proof that may have been counted as wrong is not sent again, and a touch that did not
        // come is not requested again. The remaining steps only find out whether the token is still
        // present.
        var unsettled: CryptokiError?
        while true {
            do throws(CryptokiError) {
                let session = try open()
                if unsettled != nil { break }
                return try work(session)
            } catch {
                if session?.hasUnsettledProof == true || error.kind == .touchTimedOut {
                    unsettled = error
                }
                guard !thread.isWorkAbandoned,
                    let step = recovery.next(after: error, showsNoToken: showsNoToken)
                else {
                    throw finalError(error)
                }
                try recover(step)
            }
        }
        throw finalError(
            unsettled ?? CryptokiError(.tokenAbsent, reason: "the token \(identity) was lost"))
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
            let slot = try findSlot()
            let flags = try call.tokenInformation(slot: slot).flags
            guard flags.contains(.initialized) == information.flags.contains(.initialized) else {
                throw CryptokiError(.tokenAbsent, reason: "the token has changed since it was read")
            }
            try call.initializeToken(slot: slot, label: label, securityOfficer: proof)
        }
        return try lock(after: result)
    }

    func close() {
        session?.close()
        session = nil
    }

    /// Ends the login on the token unless a policy keeps it, so that no other program can use it.
    ///
    /// A failed reset does not change the result, because a new key or PIN then exists on the
    /// token. The card stays in ``UnlockedCards``, and is reset again in the background, after the
    /// next operation, and at exit.
    ///
    /// - Throws: The error of `result`.
    private func lock<R>(after result: Result<R, CryptokiError>) throws(CryptokiError) -> R {
        guard isUnlocked, !login.isKept else { return try result.get() }
        if call.module.profile.locking == .finalization {
            close()
            call.module.finalize(by: call)
        }
        if !resetCard(within: call.deadlines.data) { resetLater() }
        return try result.get()
    }

    /// - Returns: Whether the token is locked.
    private func resetCard(within limit: Duration) -> Bool {
        do throws(CryptokiError) {
            if call.module.profile.locking != .logout {
                try CardReset.reset(reader: reader, within: limit)
            }
        } catch {
            return false
        }
        isUnlocked = false
        UnlockedCards.shared.remove(ObjectIdentifier(self))
        return true
    }

    /// Resets the card every second on the token's thread until that succeeds, at most
    /// ``maximumResets`` times.
    ///
    /// The task is unstructured: it outlives the operation. It keeps the connection and the thread
    /// alive.
    private func resetLater() {
        let isScheduled = resetsLeft > 0
        resetsLeft = Self.maximumResets
        guard !isScheduled else { return }
        Task { [self] in
            var isNeeded = true
            while isNeeded {
                try? await Task.sleep(for: Self.resetInterval)
                do throws(CryptokiError) {
                    isNeeded = try await thread.run { [self] () throws(CryptokiError) in
                        resetAgain()
                    }
                } catch {
                    // The module hangs, so that the thread accepts no work. The card is reset at
                    // exit.
                    isNeeded = false
                }
            }
        }
    }

    /// - Returns: Whether the reset must be tried again.
    private func resetAgain() -> Bool {
        resetsLeft -= 1
        // A new operation may have locked the token, or logged in under a policy that keeps the
        // login.
        if !isUnlocked || login.isKept || resetCard(within: Self.resetLimit) { resetsLeft = 0 }
        return resetsLeft > 0
    }

    /// The description of the token's slot when a session was last opened. Can be read on any
    /// thread, because the token's one may hang.
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

    private func open() throws(CryptokiError) -> Session {
        if call.module.needsInitialization {
            try call.module.reinitialize(after: call.module.epoch, by: call)
        }
        let present = call.module.epoch
        if let session, epoch == present { return session }
        session = nil
        var call = call
        call.epoch = present
        let slot = try findSlot()
        if call.module.profile.hasCards { call.reader = reader }
        let new = try Session(slot: slot, call: call, thread: thread) { [unowned self] in
            noteProof()
        }
        session = new
        epoch = present
        return new
    }

    private func recover(_ step: RecoveryPolicy.Step) throws(CryptokiError) {
        switch step {
        case .reopenSession:
            close()
        case .findTokenAgain:
            session = nil
            settle()
        case .readTokenAgain(let attempt):
            session = nil
            RecoveryPolicy.waitForOtherWriters(attempt)
            try call.module.reinitialize(after: call.module.epoch, by: call)
        case .reinitializeModule:
            session = nil
            try call.module.reinitialize(after: epoch == 0 ? call.module.epoch : epoch, by: call)
        }
    }

    /// Waits until the system has noticed a removal.
    func settle() {
        let (seconds, attoseconds) = settlingTime.components
        usleep(UInt32(clamping: seconds * 1_000_000 + attoseconds / 1_000_000_000_000))
    }

    /// The current slot of the token.
    private func findSlot() throws(CryptokiError) -> UInt {
        var found: [(TokenInformation, UInt)] = []
        let slots = try call.slots(withToken: true)
        showsNoToken = slots.isEmpty && call.module.profile.cachesStaleState
        for slot in slots {
            do throws(CryptokiError) {
                let information = try call.tokenInformation(slot: slot)
                if identity.matches(information) { found.append((information, slot)) }
            } catch {
                // Ignore an error of another slot's token; an error of the module is thrown.
                guard let value = error.returnValue, value != .deviceError,
                    value != .cryptokiNotInitialized
                else {
                    throw error
                }
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

/// The recovery steps after an error that means that a session, a token or a module was lost. Each
/// step is tried once.
///
/// The steps were found by experiment: a lost session requires a new one; the system notices a
/// removed token within half a second, and the token may return in another slot; Yubico's module
/// answers `CKR_DEVICE_ERROR` until it is initialized again.
struct RecoveryPolicy {
    enum Step: Hashable {
        /// Open a new session in the slot, and find the keys again.
        case reopenSession
        /// Wait until the system has noticed the removal, search the token in all slots, and open a
        /// session there.
        case findTokenAgain
        /// Finalize and initialize the module, then find the token again.
        case reinitializeModule
        /// The same after a short wait, because another process may be writing to the token.
        case readTokenAgain(attempt: Int)
    }

    /// How often a token is read again that other processes may be writing to.
    static let maximumRereadings = 10

    private let profile: ModuleProfile
    private var tried: Set<Step> = []

    init(_ profile: ModuleProfile = .generic) { self.profile = profile }

    /// Waits for 10 milliseconds, in each further attempt for up to 40 more, so that waiting
    /// processes do not continue at the same time.
    static func waitForOtherWriters(_ attempt: Int) {
        usleep(.random(in: 10_000...10_000 + 40_000 * UInt32(clamping: attempt - 1)))
    }

    /// - Parameter showsNoToken: Whether the module shows no token at all, which may be stale:
    ///   ykcs11 shows none after pcscd was restarted.
    /// - Returns: nil if no step is left.
    mutating func next(after error: CryptokiError, showsNoToken: Bool = false) -> Step? {
        for step in steps(for: error, showsNoToken) where tried.insert(step).inserted {
            return step
        }
        return nil
    }

    private func steps(for error: CryptokiError, _ showsNoToken: Bool) -> [Step] {
        if profile.failsDuringWrites,
            error.returnValue == .generalError || error.kind == .tokenAbsent
        {
            return (1...Self.maximumRereadings).map { .readTokenAgain(attempt: $0) }
        }
        guard let value = error.returnValue else {
            switch error.kind {
            case .tokenAbsent:
                return showsNoToken ? [.findTokenAgain, .reinitializeModule] : [.findTokenAgain]
            case .touchTimedOut: return [.findTokenAgain]
            case .keyAbsent: return profile.cachesStaleState ? [.reinitializeModule] : []
            default: return []
            }
        }
        return switch value {
        case .sessionHandleInvalid, .sessionClosed, .objectHandleInvalid, .keyHandleInvalid:
            [.reopenSession]
        // An aborted operation is still active in the session.
        case .operationActive: [.reopenSession]
        case .deviceError: [.findTokenAgain, .reinitializeModule]
        case .deviceRemoved, .tokenNotPresent, .tokenNotRecognized, .slotIDInvalid:
            [.findTokenAgain]
        // OpenSC's answer if a card was removed during a signature.
        case .generalError: [.findTokenAgain]
        // Other code in this process finalized it.
        case .cryptokiNotInitialized: [.reinitializeModule]
        default: []
        }
    }
}
