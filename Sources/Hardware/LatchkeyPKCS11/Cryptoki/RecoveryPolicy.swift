internal import Glibc

/// Decides what a failure of an operation on a token, or of a search for tokens, means, and what is
/// repeated. No other code repeats work after an error of a module.
///
/// Each step is tried once per operation. The steps were found by experiment: the system notices a
/// removal within half a second, and the token may return in another slot; Yubico's module answers
/// `CKR_DEVICE_ERROR` until it is restarted. A proof that the token did not accept is never sent
/// again: the remaining steps then only find out whether the token is still present.
final class RecoveryPolicy {
    enum Step: Hashable {
        /// Open a new session in the slot, and find the keys again.
        case reopenSession
        /// Open a new session and send the accepted proof again: another program has ended the
        /// login since, for example by a reset of the card.
        case logInAgain
        /// Wait until the system has noticed the removal, search the token in all slots, and open a
        /// session there.
        case findTokenAgain
        /// Finalize and initialize the module, then find the token again.
        case restartModule
        /// The same after a short wait, because another process may be writing to the token.
        case readTokenAgain(attempt: Int)
    }

    /// How often a token is read again that other processes may be writing to.
    static let maximumRereadings = 10

    private let profile: ModuleProfile
    private let isSearch: Bool
    /// Whether the module can show an old state of its tokens until it is restarted.
    private let cachesState: Bool
    private var tried: Set<Step> = []
    /// The failure after which `work` is not repeated: the token may have counted the proof as
    /// wrong, or the user did not touch it.
    private var failedProof: CryptokiError?
    private var isConcluded = false
    /// Whether the token may have counted a proof of the last attempt as wrong.
    var hasUnsettledProof = false
    /// Whether the last attempt logged in with a proof that can be sent again without a new prompt.
    var hasRepeatableLogin = false
    /// Whether the module listed no token at all.
    var showsNoToken = false

    /// For an operation with a token.
    init(_ profile: ModuleProfile = .generic) {
        self.profile = profile
        isSearch = false
        cachesState = profile.cachesStaleState
    }

    /// For a search in a module, which has no session. An isolated OpenSC still shows the
    /// certificates of a card that was replaced by another one.
    init(searching module: Module) {
        profile = module.profile
        isSearch = true
        cachesState = profile.cachesStaleState || profile.family == .opensc && module.isIsolated
    }

    /// Whether the module may show an old state that a step would correct.
    var mayBeStale: Bool {
        !steps(for: CryptokiError(.stale, reason: "")).allSatisfy(tried.contains)
    }

    /// Whether a step was taken in this operation.
    var isRepeating: Bool { !tried.isEmpty }

    /// Whether the module was restarted in this operation.
    var hasRestarted: Bool { tried.contains(.restartModule) }

    /// Whether an accepted proof was sent again, and so the token does not lack it.
    var hasLoggedInAgain: Bool { tried.contains(.logInAgain) }

    /// Does `work`, and repeats it after each step that ``next(after:)`` names, as long as a task
    /// waits for the result.
    func repeating<R>(
        on thread: TokenThread, _ work: () throws(CryptokiError) -> R,
        after step: (Step, CryptokiError) throws(CryptokiError) -> Void
    ) throws(CryptokiError) -> R {
        while true {
            do throws(CryptokiError) {
                return try work()
            } catch {
                guard !thread.isWorkAbandoned, let next = next(after: error) else { throw error }
                if case .readTokenAgain(let attempt) = next {
                    // At least 10 ms, and not the same time in each process that waits.
                    usleep(.random(in: 10_000...10_000 + 40_000 * UInt32(clamping: attempt - 1)))
                }
                try step(next, error)
            }
        }
    }

    /// Throws the failure of a proof that must not be sent again. The token is present.
    func checkProof() throws(CryptokiError) {
        guard let failedProof else { return }
        isConcluded = true
        throw failedProof
    }

    /// - Returns: nil if no step is left.
    func next(after error: CryptokiError) -> Step? {
        if isConcluded { return nil }
        if hasUnsettledProof || error.kind == .touchTimedOut { failedProof = failedProof ?? error }
        for step in steps(for: error) where tried.insert(step).inserted { return step }
        return nil
    }

    private func steps(for error: CryptokiError) -> [Step] {
        let restart = cachesState ? [Step.restartModule] : []
        let isUncertain =
            profile.failsToRead(error.returnValue) || error.kind == .tokenAbsent
            || error.kind == .stale
        if profile.failsDuringWrites, isUncertain {
            return (1...Self.maximumRereadings).map { .readTokenAgain(attempt: $0) }
        }
        let steps: [Step] =
            switch error.kind {
            case .returned(.userNotLoggedIn), .loginNeeded:
                hasRepeatableLogin ? [.logInAgain] : []
            case .returned(let value): Self.steps(for: value)
            case .tokenAbsent: [.findTokenAgain] + (showsNoToken ? restart : [])
            case .touchTimedOut: [.findTokenAgain]
            case .keyAbsent, .keyReplaced, .stale: restart
            case .noReaders: profile.cachesStaleState ? restart : []
            default: []
            }
        return steps.filter { step in
            switch step {
            case .reopenSession, .logInAgain, .findTokenAgain: !isSearch
            case .restartModule, .readTokenAgain: true
            }
        }
    }

    private static func steps(for value: ReturnValue) -> [Step] {
        switch value {
        // An aborted operation stays active in its session.
        case .sessionHandleInvalid, .sessionClosed, .objectHandleInvalid, .keyHandleInvalid,
            .operationActive:
            [.reopenSession]
        case .deviceError: [.findTokenAgain, .restartModule]
        // OpenSC answers CKR_GENERAL_ERROR if a card was removed during a signature.
        case .deviceRemoved, .tokenNotPresent, .tokenNotRecognized, .slotIDInvalid, .generalError:
            [.findTokenAgain]
        // Other code in this process finalized it.
        case .cryptokiNotInitialized: [.restartModule]
        default: []
        }
    }
}
