internal import FoundationEssentials
public import Latchkey
public import LatchkeyJOSE
internal import Synchronization

extension Locker {
    /// Starts a session, or gets a new token for the current one: by easy access if it is enabled,
    /// otherwise by strong authentication. If this device is not enrolled, the call enrols it, and
    /// the user sets the secret of easy access.
    ///
    /// Without a network, a correct secret leads to `verifiedOffline` if the configuration allows
    /// that, except in an active session. It ends background access.
    ///
    /// - Parameter metadata: Sent to the server; at most 4,096 bytes as JSON. Not stored and not
    ///   logged.
    /// - Returns: The status. Success does not always mean that the session is active.
    /// - Throws: ``ErsteGroupAuthError``. The status does not change then, unless the error is
    ///   `enrolmentRevoked` or says that easy access was disabled.
    @discardableResult
    public func startAuthSession(
        options: StartAuthSessionOptions? = nil, metadata: [String: JSONValue]? = nil
    ) async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        let options = options ?? StartAuthSessionOptions()
        return try await call("start the session") {
            try check(metadata)
            let context = context("log in", metadata: metadata, options: options)
            guard state.withLock({ $0.machine?.isInteracting != true }) else {
                throw ErsteGroupAuthError.refusal(.userInteractionInProgress)
            }
            try await reloadIfChanged(context)
            if state.withLock({ $0.machine?.phase == .unregistered }) {
                await finishDeletions(context)
            }
            return try await run(.start(options.requiredLevel), context)
        }
    }

    /// Gets a token of narrow scope, and opens the level `background`. Does not prompt. Concurrent
    /// callers with the same metadata share one request.
    ///
    /// - Returns: The status with the narrow token. An active session keeps its own token.
    /// - Throws: ``BackgroundAccessError``.
    @discardableResult
    public func backgroundAccess(
        metadata: [String: JSONValue]? = nil
    ) async throws(BackgroundAccessError) -> AuthSessionStatus {
        do throws(ErsteGroupAuthError) {
            return try await call("get background access") {
                try check(metadata)
                return try await backgroundRequest(metadata).value
            }
        } catch {
            throw BackgroundAccessError(error)
        }
    }

    /// Ends the session or the enrolment, and withdraws a prompt.
    ///
    /// Locking does not use the disk or the network and takes effect immediately: only the level
    /// `base` stays open, and all tokens lose their value. The call returns when the prompt is
    /// withdrawn, and no earlier call opens the session again. Destroying deletes the enrolment;
    /// text that was encrypted under it can't be decrypted any more. Destroying can't be cancelled.
    ///
    /// - Throws: ``ErsteGroupAuthError``; `notEnrolled`, and `revocationPending` if the enrolment
    ///   is deleted here and not yet at the server or in the hardware.
    @discardableResult
    public func endAuthSession(mode: EndAuthMode) async throws(ErsteGroupAuthError)
        -> AuthSessionStatus
    {
        switch mode {
        case .lock:
            try await call("lock the session") {
                let locked = Result { try lock() }
                await withdrawPrompt()
                try locked.get()
                return authSessionStatus
            }
        case .destroy: try await call("destroy the enrolment") { try await destroy() }
        }
    }

    /// Destroys the enrolment when no other call is running. Ends the session first if one is.
    private func destroy() async throws -> AuthSessionStatus {
        let context = context("destroy the enrolment")
        while true {
            if let other = state.withLock({ $0.flow }) {
                // If there is no session to lock, the call below reports it.
                try? lock()
                if await !withdrawPrompt() { _ = await other.result }
            }
            do {
                return try await run(.destroy, context)
            } catch let error as ErsteGroupAuthError
                where error.code == .userInteractionInProgress && !Task.isCancelled
            {
                continue
            }
        }
    }

    /// Withdraws the prompt or page that is on the screen. The call that showed it fails with
    /// `userCancelled`, or returns its result if the server has already answered.
    ///
    /// - Returns: The status after the prompt is withdrawn and that call has ended.
    /// - Throws: ``ErsteGroupAuthError`` with code `noActiveUI` if
    ///   ``isUserInteractionInProgress()`` is false.
    @discardableResult
    public func dismissUI() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        guard isUserInteractionInProgress(), await withdrawPrompt() else {
            throw ErsteGroupAuthError.refusal(.noActiveUI).during("dismiss the prompt")
        }
        return authSessionStatus
    }

    // MARK: Easy access

    /// Enables easy access: the user logs in and sets a secret. The session must be active. If it
    /// was started by a login no more than a minute ago, no other login is required.
    @discardableResult
    public func enableEasyAccess() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        try await change(.enableEasyAccess, "enable easy access")
    }

    /// Disables easy access, at the server and here. The device stays enrolled, and the next start
    /// requires strong authentication. The session must be active, and is locked by this call.
    @discardableResult
    public func disableEasyAccess() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        try await change(.disableEasyAccess, "disable easy access")
    }

    /// Changes the secret of easy access: the user logs in and sets another secret. Until then the
    /// old one works. The session must be active.
    @discardableResult
    public func changeEasyAccess() async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        try await change(.changeEasyAccess, "change easy access")
    }

    private func change(
        _ change: SessionMachine.Call, _ operation: String
    ) async throws(ErsteGroupAuthError) -> AuthSessionStatus {
        try await call(operation) {
            let context = context(operation)
            try await reloadIfChanged(context)
            return try await run(change, context)
        }
    }

    // MARK: Helpers

    /// Runs a public call, and names it in its error.
    func call<R>(_ operation: String, _ body: () async throws -> R)
        async throws(ErsteGroupAuthError) -> R
    {
        do {
            return try await body()
        } catch {
            throw ErsteGroupAuthError(any: error).during(operation)
        }
    }

    private func check(_ metadata: [String: JSONValue]?) throws(ErsteGroupAuthError) {
        guard let metadata else { return }
        let size = (try? JSONEncoder().encode(metadata))?.count ?? .max
        guard size <= LockerAssertion.maximumMetadataBytes else {
            throw ErsteGroupAuthError(
                code: .invalidInput,
                reason: "the metadata is larger than \(LockerAssertion.maximumMetadataBytes) bytes",
                recovery: "Send less metadata.")
        }
    }
}

/// How to end a session.
public enum EndAuthMode: Hashable, Sendable, CaseIterable {
    /// The session ends; the device stays enrolled.
    case lock
    /// The enrolment ends, here and at the server. Text that was encrypted under it can't be
    /// decrypted any more.
    case destroy
}
