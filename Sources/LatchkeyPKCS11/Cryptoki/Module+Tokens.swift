extension Module {
    /// The tokens that are there now.
    ///
    /// - Throws: `noReaders`, where there is no slot at all; what the ladder could not mend.
    func slotReports() async throws(CryptokiError) -> [SlotReport] {
        try await thread.run { [self] in
            Result { () throws(CryptokiError) in
                let caller = caller(on: thread, deadlines: options.deadlines)
                let epoch = epoch
                do throws(CryptokiError) {
                    if needsInitialization { try reinitialize(after: epoch, by: caller) }
                    return try read(by: caller)
                } catch {
                    // Nothing is open here that could be opened anew: only starting the module again may help.
                    guard !thread.isWorkAbandoned,
                        error.returnValue == .deviceError || error.returnValue == .cryptokiNotInitialized
                    else { throw error }
                    try reinitialize(after: epoch, by: caller)
                    return try read(by: caller, isLastTry: true)
                }
            }
        }
    }

    private func read(by caller: Caller, isLastTry: Bool = false) throws(CryptokiError) -> [SlotReport] {
        let slots: [UInt]
        do throws(CryptokiError) {
            slots = try caller.slots(withToken: true)
        } catch {
            // Yubico's module says so when there is no pcscd to ask.
            guard isLastTry, profile.family == .ykcs11, error.returnValue == .deviceError else { throw error }
            throw CryptokiError(
                .noReaders, function: error.function, reason: "the module reaches no reader; is pcscd running?")
        }
        if slots.isEmpty, try caller.slots(withToken: false).isEmpty {
            throw CryptokiError(
                .noReaders, function: "C_GetSlotList",
                reason: "the module sees no reader, or pcscd does not let this user see one")
        }
        return slots.map { slot in
            SlotReport(
                slot: slot, token: Result { () throws(CryptokiError) in try caller.tokenInformation(slot: slot) })
        }
    }

    /// The tokens of this module that fit a URI and can be used.
    func token(matching uri: TokenURI, options: TokenOptions) async throws(CryptokiError) -> [Token] {
        let reports = try await slotReports()
        var tokens: [Token] = []
        for report in reports {
            guard case .success(let information) = report.token, information.flags.contains(.initialized),
                uri.matches(information)
            else { continue }
            tokens.append(
                try token(information) { () throws(CryptokiError) in
                    Token(
                        module: self, information: information,
                        uri: try TokenURI(naming: information, modulePath: path), options: options)
                })
        }
        return tokens
    }
}
