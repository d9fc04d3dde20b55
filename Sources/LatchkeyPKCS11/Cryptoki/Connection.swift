internal import Glibc

/// A token's session and how it is got back. Belongs to the token's thread.
///
/// Safe to share only because of that: nothing in it is touched but in work that runs on the thread.
final class Connection: @unchecked Sendable {
    let identity: TokenIdentity
    private let call: Caller
    private let thread: TokenThread
    private let login: LoginKeeper
    private let settlingTime: Duration
    private var session: Session?
    private var epoch = 0
    /// Whether the module showed no token at all when this one was last looked for, and may be blind.
    private var seesNothing = false
    /// What the token's slot was called when a session was opened last.
    private var reader = ""
    /// Whether a proof was shown since the token was last locked.
    private var isUnlocked = false
    /// How often a failed reset is still tried again. More than 0 while a task does so.
    private var resetsLeft = 0

    private static let maximumResets = 30
    private static let resetInterval: Duration = .seconds(1)
    /// How long a repeated reset may keep other work from the thread.
    private static let resetLimit: Duration = .seconds(1)

    init(call: Caller, thread: TokenThread, login: LoginKeeper, identity: TokenIdentity, settlingTime: Duration) {
        self.call = call
        self.thread = thread
        self.login = login
        self.identity = identity
        self.settlingTime = settlingTime
    }

    /// Does `work` with a session, climbing the ladder as long as that helps and somebody waits. A
    /// proof that the token was shown and did not accept ends the work, whatever else would help.
    ///
    /// Afterwards the token is locked, unless a policy keeps the login.
    func perform<R>(_ work: (Session) throws(CryptokiError) -> R) throws(CryptokiError) -> R {
        let result = Result { () throws(CryptokiError) in try performUnlocked(work) }
        return try lock(after: result)
    }

    private func performUnlocked<R>(_ work: (Session) throws(CryptokiError) -> R) throws(CryptokiError) -> R {
        session?.hasUnsettledProof = false
        var ladder = RecoveryLadder()
        // A proof that may have been counted as wrong is not shown again by itself: what is left then is to see whether
        // the token is still there, and to say how it ended.
        var unsettled: CryptokiError?
        while true {
            do throws(CryptokiError) {
                let session = try open()
                if unsettled != nil { break }
                return try work(session)
            } catch {
                if session?.hasUnsettledProof == true { unsettled = error }
                guard !thread.isWorkAbandoned, let rung = ladder.next(after: error, seesNothing: seesNothing) else {
                    throw giveUp(error)
                }
                try climb(rung)
            }
        }
        throw giveUp(unsettled ?? CryptokiError(.tokenAbsent, reason: "the token \(identity) was lost"))
    }

    /// Does `work`, which may close all sessions of this process with the token, while none is open here. It opens the one
    /// that it needs with what it gets; nothing is repeated, and afterwards none is open again.
    func performAlone<R>(
        _ work: (_ open: () throws(CryptokiError) -> Session) throws(CryptokiError) -> R
    ) throws(CryptokiError) -> R {
        close()
        let result = Result { () throws(CryptokiError) in
            defer { close() }
            return try work { () throws(CryptokiError) in try open() }
        }
        return try lock(after: result)
    }

    func close() {
        session?.close()
        session = nil
    }

    /// Ends the login on the token when none is kept, so that no other program uses it.
    ///
    /// A failed reset does not change the result: a new key or PIN exists on the token and must be known. The card then
    /// stays in ``UnlockedCards``, and is reset again in the background, after the next operation, and at exit.
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
            if call.module.profile.locking != .logout { try CardReset.reset(reader: reader, within: limit) }
        } catch {
            return false
        }
        isUnlocked = false
        UnlockedCards.shared.remove(ObjectIdentifier(self))
        return true
    }

    /// Resets the card again every second, on the token's thread, until that succeeds, at most ``maximumResets`` times.
    ///
    /// The task is unstructured: it outlives the operation. It keeps the connection and the thread alive.
    private func resetLater() {
        let isScheduled = resetsLeft > 0
        resetsLeft = Self.maximumResets
        guard !isScheduled else { return }
        Task { [self] in
            var isNeeded = true
            while isNeeded {
                try? await Task.sleep(for: Self.resetInterval)
                do throws(CryptokiError) {
                    isNeeded = try await thread.run { [self] in Result<Bool, CryptokiError>.success(resetAgain()) }
                } catch {
                    // The module hangs, so that the thread takes no work. The card is reset at exit.
                    isNeeded = false
                }
            }
        }
    }

    /// - Returns: Whether the reset must be tried again.
    private func resetAgain() -> Bool {
        resetsLeft -= 1
        // A new operation may have locked the token, or logged in under a policy that keeps the login.
        if !isUnlocked || login.isKept || resetCard(within: Self.resetLimit) { resetsLeft = 0 }
        return resetsLeft > 0
    }

    private func noteProof() {
        isUnlocked = true
        if call.module.profile.locking != .logout {
            UnlockedCards.shared.add(ObjectIdentifier(self), reader: reader)
        }
    }

    /// Whether the module does not notice what other programs write to the token.
    var seesThePast: Bool { call.module.profile.clingsToThePast }

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
        let new = try Session(slot: findSlot(), call: call, thread: thread) { [unowned self] in noteProof() }
        session = new
        epoch = present
        return new
    }

    private func climb(_ rung: RecoveryLadder.Rung) throws(CryptokiError) {
        switch rung {
        case .reopenSession:
            close()
        case .findTokenAgain:
            session = nil
            settle()
        case .reinitializeModule:
            session = nil
            try call.module.reinitialize(after: epoch == 0 ? call.module.epoch : epoch, by: call)
        }
    }

    private func settle() {
        let (seconds, attoseconds) = settlingTime.components
        usleep(UInt32(clamping: seconds * 1_000_000 + attoseconds / 1_000_000_000_000))
    }

    /// The slot that the token is in now.
    private func findSlot() throws(CryptokiError) -> UInt {
        var found: [UInt] = []
        let slots = try call.slots(withToken: true)
        seesNothing = slots.isEmpty && call.module.profile.clingsToThePast
        for slot in slots {
            do throws(CryptokiError) {
                let information = try call.tokenInformation(slot: slot)
                if TokenIdentity(information, in: call.module.profile) == identity { found.append(slot) }
            } catch {
                // Another slot's token may be broken or on its way out; what concerns the module concerns us.
                guard let value = error.returnValue, value != .deviceError, value != .cryptokiNotInitialized else {
                    throw error
                }
            }
        }
        guard let slot = found.first else {
            throw CryptokiError(.tokenAbsent, reason: "the token \(identity) is not in any reader")
        }
        guard found.count == 1 else {
            throw CryptokiError(.tokenAmbiguous, reason: "there is more than one token \(identity)")
        }
        reader = try call.slotDescription(slot)
        return slot
    }

    /// The error that ends the ladder. What was lost is opened anew by the next work.
    private func giveUp(_ error: CryptokiError) -> CryptokiError {
        switch error.returnValue {
        case .deviceRemoved, .tokenNotPresent, .tokenNotRecognized, .slotIDInvalid:
            session = nil
            return CryptokiError(
                .tokenAbsent, function: error.function, reason: "the token \(identity) was removed: \(error.reason)")
        case .deviceError, .sessionHandleInvalid, .sessionClosed, .cryptokiNotInitialized:
            session = nil
        default: break
        }
        return error
    }
}
