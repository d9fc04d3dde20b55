internal import FoundationEssentials
internal import Latchkey
public import LatchkeyJOSE
internal import Synchronization

extension Locker {
    /// Starts a session, or gets a new token for the current one: by easy access if it is enabled, otherwise by strong
    /// authentication. If this device is not enrolled, the call enrols it, and the user sets the secret of easy access.
    ///
    /// Without a network, a correct secret leads to `verifiedOffline` if the configuration allows that.
    ///
    /// - Parameter metadata: Sent to the server; at most 4,096 bytes as JSON. Not stored and not logged.
    /// - Returns: The status. Success does not always mean that the session is active.
    /// - Throws: ``ErsteGroupAuthError``. The status does not change then, unless the error is `enrolmentRevoked` or
    ///   says that easy access was disabled.
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

    /// Gets a token of narrow scope, and opens the level `background`. Does not prompt. Concurrent callers share one
    /// request.
    ///
    /// - Returns: The status with the narrow token. An active session keeps its own token.
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

    /// Ends the session or the enrolment, and withdraws a prompt.
    ///
    /// Locking does not use the disk or the network and takes effect immediately: only the level `base` stays open, and
    /// all tokens lose their value. The call returns when the prompt is withdrawn, and no earlier call opens the
    /// session again. Destroying deletes the enrolment; text that was encrypted under it can't be decrypted any more.
    /// Destroying can't be cancelled.
    ///
    /// - Throws: ``ErsteGroupAuthError``; `notEnrolled`, and `revocationPending` if the enrolment is deleted here and
    ///   not yet at the server or in the hardware.
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

    /// Destroys the enrolment when no other call is running. Ends the session first if one is.
    private func destroy() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        let context = context("destroy the enrolment", "destroy the enrolment")
        while true {
            if let other = state.withLock({ $0.flow }) {
                // If there is no session to lock, the call below reports it.
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

    /// Withdraws the prompt or page that is on the screen. The call that showed it fails with `userCancelled`, or
    /// returns its result if the server has already answered.
    ///
    /// - Returns: The status after the prompt is withdrawn and that call has ended.
    /// - Throws: ``ErsteGroupAuthError`` with code `noActiveUI`.
    @discardableResult
    public func dismissUI() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        guard await withdraw() else { throw .refusal("dismiss the prompt", .noActiveUI) }
        return authSessionStatus
    }

    // MARK: Easy access

    /// Enables easy access: the user logs in and sets a secret. The session must be active. If it was started by a
    /// login no more than a minute ago, no other login is required.
    @discardableResult
    public func enableEasyAccess() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        let context = context("enable easy access", "enable easy access")
        try await reloadIfChanged(context)
        return try await run(.enableEasyAccess, context)
    }

    /// Disables easy access, at the server and here. The device stays enrolled, and the next start requires strong
    /// authentication. The session must be active, and is locked by this call.
    @discardableResult
    public func disableEasyAccess() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        let context = context("disable easy access", "disable easy access")
        try await reloadIfChanged(context)
        return try await run(.disableEasyAccess, context)
    }

    /// Changes the secret of easy access: the user logs in and sets another secret. Until then the old one works. The
    /// session must be active.
    @discardableResult
    public func changeEasyAccess() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        let context = context("change easy access", "change easy access")
        try await reloadIfChanged(context)
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
                recovery: "Send less metadata.")
        }
    }

    /// Applies changes of other programs, and revokes destroyed enrolments at the server. Fails if another call is
    /// running.
    private func prepare(_ context: FlowContext) async throws(ErsteGroupAuthError) {
        guard !isUserInteractionInProgress else {
            throw .refusal(context.operation, .userInteractionInProgress)
        }
        try await reloadIfChanged(context)
        if state.withLock({ $0.machine?.phase == .unregistered }) { await tidyUp(context) }
    }
}

/// How to end a session.
public enum EndAuthMode: String, Hashable, Sendable, CaseIterable {
    /// The session ends; the device stays enrolled.
    case lock
    /// The enrolment ends, here and at the server. Text that was encrypted under it can't be decrypted any more.
    case destroy
}
