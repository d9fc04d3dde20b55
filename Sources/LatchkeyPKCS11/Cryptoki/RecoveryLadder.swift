/// What to do about an error that says that a session, a token or a module was lost. Each rung is climbed once.
///
/// The rungs were found by experiment (`reference/pkcs11.md` section 7.3): a lost session wants a new one; a token that
/// was pulled is noticed by the system within half a second, and may come back in another slot; Yubico's module answers
/// `CKR_DEVICE_ERROR` for ever after until it is initialised anew.
struct RecoveryLadder {
    enum Rung: Hashable {
        /// Open a new session in the slot, and find the keys again.
        case reopenSession
        /// Give the system time to notice, look for the token in all slots, and open a session there.
        case findTokenAgain
        /// Finalise and initialise the module, then the same.
        case reinitializeModule
    }

    private var climbed: Set<Rung> = []

    /// - Returns: nil where nothing more helps.
    mutating func next(after error: CryptokiError) -> Rung? {
        for rung in Self.rungs(for: error) where climbed.insert(rung).inserted { return rung }
        return nil
    }

    private static func rungs(for error: CryptokiError) -> [Rung] {
        guard let value = error.returnValue else {
            // It was not in any slot. A module that is blind since it was pulled sees it again after a new start.
            return error.kind == .tokenAbsent ? [.findTokenAgain] : []
        }
        return switch value {
        case .sessionHandleInvalid, .sessionClosed, .objectHandleInvalid, .keyHandleInvalid: [.reopenSession]
        // Something that was broken off is still going on in the session.
        case .operationActive: [.reopenSession]
        case .deviceError: [.findTokenAgain, .reinitializeModule]
        case .deviceRemoved, .tokenNotPresent, .tokenNotRecognized, .slotIDInvalid: [.findTokenAgain]
        // What OpenSC says of a card that was pulled in the middle of a signature.
        case .generalError: [.findTokenAgain]
        // Somebody else in this process finalised it.
        case .cryptokiNotInitialized: [.reinitializeModule]
        default: []
        }
    }
}
