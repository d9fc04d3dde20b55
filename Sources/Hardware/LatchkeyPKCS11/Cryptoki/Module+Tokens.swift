extension Module {
    /// Reads the current tokens. Restarts the module if its state is stale or it fails: once, and
    /// SoftHSM2 up to ``RecoveryPolicy/maximumRereadings`` times.
    ///
    /// - Parameter isSought: Whether the caller looks for a token; nil to list all.
    /// - Throws: `noReaders` if there is no slot; the error after the restart.
    func tokensInSlots(
        where isSought: (@Sendable (TokenInformation) -> Bool)? = nil
    ) async throws(CryptokiError) -> [TokenInSlot] {
        do {
            return try await thread.run { [self] () throws(CryptokiError) in
                try readTokens(
                    by: caller(on: thread, deadlines: options.deadlines), where: isSought)
            }
        } catch {
            throw await recognizingRemoval(error)
        }
    }

    /// Replaces a timeout by `tokenAbsent` if the card is no longer in its reader.
    ///
    /// - Parameter reader: Empty if it is not known.
    func recognizingRemoval(_ error: CryptokiError, reader: String = "") async -> CryptokiError {
        guard error.kind == .timedOut, profile.hasCards, await CardReset.findsNoCard(in: reader)
        else { return error }
        return CryptokiError(
            .tokenAbsent, function: error.function,
            reason: "the token was removed, and the module did not return")
    }

    private func readTokens(
        by caller: Caller, where isSought: ((TokenInformation) -> Bool)?
    ) throws(CryptokiError) -> [TokenInSlot] {
        let epoch = epoch
        do throws(CryptokiError) {
            if needsInitialization { try reinitialize(after: epoch, by: caller) }
            var reports = try read(by: caller)
            if let isSought, profile.failsDuringWrites {
                for attempt in 1...RecoveryPolicy.maximumRereadings
                where !reports.contains(where: { $0.isInitialized(isSought) })
                    && !thread.isWorkAbandoned
                {
                    RecoveryPolicy.waitForOtherWriters(attempt)
                    try reinitialize(after: self.epoch, by: caller)
                    reports = try read(by: caller)
                }
                return reports
            }
            guard isStale(reports), !thread.isWorkAbandoned else { return reports }
            try reinitialize(after: self.epoch, by: caller)
            return try read(by: caller, isLastTry: true)
        } catch {
            // There is no session to open again; only a restart of the module may help.
            guard !thread.isWorkAbandoned,
                error.returnValue == .deviceError || error.returnValue == .cryptokiNotInitialized
                    || error.kind == .noReaders && profile.cachesStaleState && self.epoch == epoch
            else { throw error }
            try reinitialize(after: epoch, by: caller)
            return try read(by: caller, isLastTry: true)
        }
    }

    /// Whether the module's state may be stale.
    ///
    /// ykcs11 shows no token after pcscd was restarted. An isolated OpenSC still shows the
    /// certificates of a card that was replaced by another one.
    private func isStale(_ reports: [TokenInSlot]) -> Bool {
        if profile.cachesStaleState { return reports.isEmpty }
        guard profile.family == .opensc, isIsolated else { return false }
        let all = reports.compactMap { try? $0.get() }
        return replaceSeen(Set(all.map { TokenIdentity($0, among: all, in: profile) }))
    }

    private func read(by caller: Caller, isLastTry: Bool = false) throws(CryptokiError)
        -> [TokenInSlot]
    {
        let slots: [UInt]
        do throws(CryptokiError) {
            slots = try caller.slots(withToken: true)
        } catch {
            // Yubico's module answers this if pcscd does not run.
            guard isLastTry, profile.family == .ykcs11, error.returnValue == .deviceError else {
                throw error
            }
            throw CryptokiError(
                .noReaders, function: error.function,
                reason: "the module reaches no reader, perhaps because pcscd does not run")
        }
        if slots.isEmpty, try caller.slots(withToken: false).isEmpty {
            throw CryptokiError(
                .noReaders, function: "C_GetSlotList",
                reason: "the module sees no reader, or pcscd does not let this user see one")
        }
        return slots.map { slot in
            Result { () throws(CryptokiError) in try caller.tokenInformation(slot: slot) }
        }
    }

    /// The initialized tokens of this module that match.
    func tokens(
        options: TokenOptions, where fits: @escaping @Sendable (TokenInformation) -> Bool
    ) async throws(CryptokiError) -> [Token] {
        let all = try await tokensInSlots(where: fits).compactMap { try? $0.get() }
        var tokens: [Token] = []
        for information in all where fits(information) && information.flags.contains(.initialized) {
            let identity = TokenIdentity(information, among: all, in: profile)
            tokens.append(try token(information, identity, options: options))
        }
        return tokens
    }
}

/// The information of the token in a slot, or the error.
typealias TokenInSlot = Result<TokenInformation, CryptokiError>

extension TokenInSlot {
    /// Whether it is an initialized token for which `condition` is true.
    fileprivate func isInitialized(_ condition: (TokenInformation) -> Bool) -> Bool {
        guard case .success(let information) = self else { return false }
        return condition(information) && information.flags.contains(.initialized)
    }
}
