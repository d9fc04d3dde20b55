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
    /// The lock of the token while it generates a key. A call that the task no longer waits for
    /// keeps it until it returns.
    var creationLock: ProcessLock?
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
        return try end(
            Result { () throws(CryptokiError) in
                do throws(CryptokiError) {
                    return try recovery.repeating(on: thread) { () throws(CryptokiError) in
                        let session = try open(recovery)
                        try recovery.checkProof()
                        session.beginAttempt(recovery)
                        defer {
                            recovery.hasUnsettledProof = session.hasUnsettledProof
                            recovery.hasRepeatableLogin = session.hasRepeatableLogin
                            session.endAttempt()
                        }
                        return try work(session)
                    } after: { (step, error) throws(CryptokiError) in
                        try recover(step, after: error)
                    }
                } catch {
                    throw finalError(error, after: recovery)
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
        }.mapError { obstacle(behind: $0, serial: nil) ?? $0 }
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
        if isUnlocked, !login.isKept, !lockCard(within: call.deadlines.data) { resetLater() }
        return try result.get()
    }

    /// Locks the card, which this process has unlocked.
    ///
    /// - Returns: Whether the card is locked.
    private func lockCard(within limit: Duration) -> Bool {
        let module = call.module
        if module.profile.locking == .finalization {
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
                        || lockCard(within: Self.resetInterval)
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
        if call.module.profile.hasCards { call.reader = reader }
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
        case .reopenSession: return close()
        case .logInAgain: return close()
        // The system notices a removal after this time.
        case .findTokenAgain: usleep(settlingTime)
        case .readTokenAgain:
            try call.module.reinitialize(after: call.module.epoch, by: call)
        case .restartModule:
            // A module may have read the card while it was removed.
            if [.stale, .keyAbsent, .keyReplaced].contains(error.kind) { usleep(settlingTime) }
            try call.module.reinitialize(after: epoch == 0 ? call.module.epoch : epoch, by: call)
        }
        session = nil
    }

    /// The current slot of the token.
    private func findSlot(_ recovery: RecoveryPolicy) throws(CryptokiError) -> UInt {
        var found: [(TokenInformation, UInt)] = []
        var failure: CryptokiError?
        let slots = try call.slots(withToken: true)
        recovery.showsNoToken = slots.isEmpty
        for slot in slots {
            do throws(CryptokiError) {
                let information = try call.tokenInformation(slot: slot)
                if identity.matches(information) { found.append((information, slot)) }
            } catch {
                guard error.returnValue != nil else { throw error }
                failure = failure ?? error
            }
        }
        // An error of another slot does not matter. If the token was not found, it may be in the
        // slot that failed.
        if found.isEmpty, let failure,
            failure.returnValue == .deviceError || failure.returnValue == .cryptokiNotInitialized
        {
            throw failure
        }
        let slot = try identity.only(of: found, in: call.module)
        reader = try call.slotDescription(slot)
        return slot
    }

    /// The error that ends the recovery. The next operation opens a new session.
    private func finalError(
        _ error: CryptokiError, after recovery: RecoveryPolicy
    ) -> CryptokiError {
        switch error.returnValue {
        case .userNotLoggedIn where recovery.hasLoggedInAgain: return .loginWithoutEffect(error)
        case nil where error.kind == .loginNeeded && recovery.hasLoggedInAgain:
            return .loginWithoutEffect(error)
        case .deviceRemoved, .tokenNotPresent, .tokenNotRecognized, .slotIDInvalid:
            session = nil
            return CryptokiError(
                .tokenAbsent, function: error.function,
                reason: "the token \(identity) was removed: \(error.reason)")
        case .deviceError, .sessionHandleInvalid, .sessionClosed, .cryptokiNotInitialized:
            session = nil
        default: break
        }
        return obstacle(behind: error, serial: identity.texts.serial.text) ?? error
    }

    /// The cause of a module's answer that does not name it, if the module cannot write its files.
    private func obstacle(behind error: CryptokiError, serial: String?) -> CryptokiError? {
        guard [.generalError, .functionFailed].contains(error.returnValue) else { return nil }
        return call.module.files?.obstacle(to: error.function, serial: serial)
    }
}
