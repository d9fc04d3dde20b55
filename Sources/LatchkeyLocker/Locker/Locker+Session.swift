internal import FoundationEssentials
public import Latchkey
internal import Synchronization

extension Locker {
    /// Starts a session, or gets a fresh token for one: by easy access where it is enabled, else by strong
    /// authentication. Where this device is not enrolled, that is done, and the person sets the secret of easy access.
    ///
    /// Without a network, and where the configuration allows for it, a right secret leads to `verifiedOffline`.
    ///
    /// - Parameter metadata: Passed on to the server; at most 4,096 bytes as JSON. It is neither stored nor logged.
    /// - Returns: The status. That there was no error does not mean that the session is active.
    /// - Throws: ``ErsteGroupAuthError``; the status is then what it was, unless the error is `enrolmentRevoked`, or
    ///   says that easy access is gone.
    @discardableResult
    public func startAuthSession(
        options: StartAuthSessionOptions? = nil, metadata: [String: JSONValue]? = nil
    ) async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        let options = options ?? StartAuthSessionOptions()
        let context = context("start the session", "log in", metadata: metadata, options: options)
        try check(metadata, context.operation)
        try await prepare(context)
        return try await run(.start(options.requiredLevel), context)
    }

    /// Gets a token of narrow scope, and opens the level `background`. Nobody is asked. Callers at the same time share
    /// one request.
    ///
    /// - Returns: The status, with the narrow token as its token. An active session keeps its own.
    /// - Throws: ``BackgroundAccessError``.
    @discardableResult
    public func backgroundAccess(
        metadata: [String: JSONValue]? = nil
    ) async throws(BackgroundAccessError) -> AuthSessionStatus {
        do throws(ErsteGroupAuthError) {
            try check(metadata, "get background access")
        } catch {
            throw BackgroundAccessError(error)
        }
        return try await background(metadata)
    }

    /// Ends the session, or the enrolment. Whatever is asking somebody is withdrawn.
    ///
    /// Locking touches neither disk nor network, and waits for nothing: as soon as it is called no level but `base` is
    /// open, and tokens have no value any more. It returns when the prompt is gone, and nothing that was begun before
    /// opens the session again. Destroying deletes what is stored; nothing that was encrypted can be decrypted again. Once
    /// begun, it goes on to its end, whatever is called meanwhile.
    ///
    /// - Throws: ``ErsteGroupAuthError``; `notEnrolled`, and `revocationPending` when all is deleted here and the server
    ///   could not be told yet.
    @discardableResult
    public func endAuthSession(mode: EndAuthMode) async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        switch mode {
        case .lock:
            let locked = Result { () throws(ErsteGroupAuthError) in try lock("lock the session") }
            await withdraw()
            try locked.get()
            return authSessionStatus
        case .destroy: return try await destroy()
        }
    }

    /// Destroys the enrolment as soon as no other call is under way. Where one is, the session ends before.
    private func destroy() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        let context = context("destroy the enrolment", "destroy the enrolment")
        while true {
            if let other = state.withLock({ $0.flow }) {
                // Where there is nothing to lock, there will be nothing to destroy, and that is said below.
                try? lock(context.operation)
                if await !withdraw() { _ = await other.value }
            }
            do throws(ErsteGroupAuthError) {
                return try await run(.destroy, context)
            } catch {
                guard error.code == .userInteractionInProgress, !Task.isCancelled else { throw error }
            }
        }
    }

    /// Withdraws the prompt or page that somebody is looking at. The call that wanted it ends with `userCancelled`, or,
    /// if the server was faster, with what came of it.
    ///
    /// - Returns: The status, when the prompt is gone and that call has ended.
    /// - Throws: ``ErsteGroupAuthError`` with code `noActiveUI`.
    @discardableResult
    public func dismissUI() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        guard await withdraw() else { throw .refusal("dismiss the prompt", .noActiveUI) }
        return authSessionStatus
    }

    // MARK: Easy access

    /// Has the user log in, and the person set a secret, after it was disabled. The session must be active; where it was
    /// started by a login no more than a minute ago, that login does.
    @discardableResult
    public func enableEasyAccess() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        let context = context("enable easy access", "enable easy access")
        try await keepUp(context)
        return try await run(.enableEasyAccess, context)
    }

    /// Takes the secret away, at the server and here; the device stays enrolled, and the next start takes strong
    /// authentication. The session must be active, and is locked by this.
    @discardableResult
    public func disableEasyAccess() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        let context = context("disable easy access", "disable easy access")
        try await keepUp(context)
        return try await run(.disableEasyAccess, context)
    }

    /// Has the user log in, and the person set another secret. Until that is done the old one works. The session must be
    /// active.
    @discardableResult
    public func changeEasyAccess() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        let context = context("change easy access", "change easy access")
        try await keepUp(context)
        return try await run(.changeEasyAccess, context)
    }

    // MARK: Helpers

    private func check(_ metadata: [String: JSONValue]?, _ operation: String) throws(ErsteGroupAuthError) {
        guard let metadata else { return }
        let size = (try? JSONEncoder().encode(metadata))?.count ?? .max
        guard size <= LockerAssertion.maximumMetadataBytes else {
            throw ErsteGroupAuthError(
                operation: operation, code: .invalidInput,
                reason: "the metadata is larger than \(LockerAssertion.maximumMetadataBytes) bytes",
                recovery: "Pass less on.")
        }
    }

    /// Goes along with what other programs did, and tells the server of what was destroyed before, unless somebody is being
    /// asked already.
    private func prepare(_ context: FlowContext) async throws(ErsteGroupAuthError) {
        guard !isUserInteractionInProgress else {
            throw .refusal(context.operation, .userInteractionInProgress)
        }
        try await keepUp(context)
        if state.withLock({ $0.machine?.phase == .unregistered }) { await tidyUp(context) }
    }
}
