/// The recovery steps after an error that means that a session, a token or a module was lost. Each step is tried once.
///
/// The steps were found by experiment: a lost session requires a new one; the system notices a removed token within half a
/// second, and the token may return in another slot; Yubico's module answers `CKR_DEVICE_ERROR` until it is initialized again.
struct RecoveryPolicy {
    enum Step: Hashable {
        /// Open a new session in the slot, and find the keys again.
        case reopenSession
        /// Wait until the system has noticed the removal, search the token in all slots, and open a session there.
        case findTokenAgain
        /// Finalize and initialize the module, then find the token again.
        case reinitializeModule
    }

    private var tried: Set<Step> = []

    /// - Parameter showsNoToken: Whether the module shows no token at all, which may be stale: ykcs11 shows none after pcscd was
    ///   restarted.
    /// - Returns: nil if no step is left.
    mutating func next(after error: CryptokiError, showsNoToken: Bool = false) -> Step? {
        for step in Self.steps(for: error, showsNoToken) where tried.insert(step).inserted { return step }
        return nil
    }

    private static func steps(for error: CryptokiError, _ showsNoToken: Bool) -> [Step] {
        guard let value = error.returnValue else {
            // The token was not in any slot.
            guard error.kind == .tokenAbsent else { return [] }
            return showsNoToken ? [.findTokenAgain, .reinitializeModule] : [.findTokenAgain]
        }
        return switch value {
        case .sessionHandleInvalid, .sessionClosed, .objectHandleInvalid, .keyHandleInvalid: [.reopenSession]
        // An aborted operation is still active in the session.
        case .operationActive: [.reopenSession]
        case .deviceError: [.findTokenAgain, .reinitializeModule]
        case .deviceRemoved, .tokenNotPresent, .tokenNotRecognized, .slotIDInvalid: [.findTokenAgain]
        // OpenSC's answer if a card was removed during a signature.
        case .generalError: [.findTokenAgain]
        // Other code in this process finalized it.
        case .cryptokiNotInitialized: [.reinitializeModule]
        default: []
        }
    }
}
