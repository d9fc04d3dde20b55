internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

extension ErsteGroupAuthError {
    /// What the hardware, the store or a person said.
    init(_ operation: String, _ error: KeystoreError) {
        let code: Code =
            switch error.code {
            case .cancelled: .userCancelled
            case .wrongProof: .wrongSecret
            case .lockedOut: .secretLockedOut
            case .damaged: .storageCorrupted
            case .wrongDevice, .invalidated: .wrongDevice
            case .conflict, .transient: .conflict
            case .invalidInput: .invalidInput
            case .passcodeNotSet, .notEnrolled: .verificationUnavailable
            default: .hardware
            }
        self.init(
            operation: operation, code: code, reason: error.reason, recovery: error.recovery,
            attemptsLeft: error.attemptsLeft, lockedOutUntil: error.lockedOutUntil, underlying: error.underlying)
    }

    /// What came of a login in the browser.
    init(_ operation: String, _ failure: AuthorizationFailure) {
        self =
            switch failure {
            case .cancelled: .cancelled(operation)
            case .refused(let error) where ["cancel", "access_denied"].contains(error.error):
                .cancelled(operation, "it was cancelled in the browser")
            case .timedOut: .cancelled(operation, "nobody finished the login in the browser in time")
            case .linkReused:
                ErsteGroupAuthError(
                    operation: operation, code: .userCancelled,
                    reason: "the link to the login page was followed twice, the first time perhaps by somebody else",
                    recovery: "Start again, and open the link once.")
            case .refused(let error): .refused(operation, error, status: nil)
            case .otherIssuer(let named, let expected):
                ErsteGroupAuthError(
                    operation: operation, code: .server,
                    reason: AuthorizationFailure.reason(forIssuer: named, expected: expected),
                    recovery: "No code was redeemed. If it happens again, do not trust the server.")
            case .noPort(let why):
                ErsteGroupAuthError(
                    operation: operation, code: .hardware, reason: "no port on the loopback interface can be opened",
                    recovery: "Check that the loopback interface is up.", underlying: .init(layer: "nio", text: why))
            }
    }

    init(_ operation: String, _ flaw: IDTokenFlaw) {
        guard flaw != .login else {
            self.init(
                operation: operation, code: .strongAuthRequired,
                reason: "the server took an earlier login for this one",
                recovery: "Log in anew; the channel must ask the server for that.")
            return
        }
        self = .invalidResponse(operation, "the server's ID token \(flaw.reason)")
    }

    /// Whatever else was thrown on the way.
    init(_ operation: String, any error: any Error) {
        self =
            switch error {
            case let error as ErsteGroupAuthError: error
            case let error as KeystoreError: ErsteGroupAuthError(operation, error)
            case let failure as AuthorizationFailure: ErsteGroupAuthError(operation, failure)
            case let flaw as IDTokenFlaw: ErsteGroupAuthError(operation, flaw)
            case is CancellationError: .cancelled(operation)
            default:
                ErsteGroupAuthError(
                    operation: operation, code: .hardware, reason: "something unforeseen went wrong",
                    recovery: "Try again; if it stays, report it.",
                    underlying: .init(layer: "latchkey", text: String(describing: type(of: error))))
            }
    }

    static func transport(_ operation: String, _ error: KeystoreError) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: error.code == .cancelled ? .userCancelled : .network, reason: error.reason,
            recovery: error.recovery, underlying: error.underlying)
    }

    /// An error of the server that says nothing about the enrolment, whatever its code is: of the browser, of an endpoint
    /// that is none of the locker's, or of whoever answers in the server's place.
    static func refused(_ operation: String, _ error: OAuth2Error, status: Int?) -> ErsteGroupAuthError {
        let refusal = ServerRefusal(error, status: status)
        return ErsteGroupAuthError(
            operation: operation, code: .server, reason: refusal.reason, recovery: refusal.recovery,
            serverError: error.error, httpStatus: status)
    }

    /// An error of one of the locker's own endpoints or grants, in the codes of the protocol, each with its status.
    static func refusedByLocker(_ operation: String, _ error: OAuth2Error, status: Int) -> ErsteGroupAuthError {
        let (code, reason, recovery): (Code, String, String)
        switch (status, error.error) {
        case (401, "enrolment_revoked"):
            (code, reason, recovery) = (
                .enrolmentRevoked, "the server no longer knows this device", "Start a session to enrol it again."
            )
        case (400, "easy_access_revoked"):
            (code, reason, recovery) = (
                .easyAccessRevoked, "the server no longer knows this device's easy access",
                "Log in by strong authentication, then enable easy access again."
            )
        case (403, "insufficient_user_authentication"), (401, "invalid_token"):
            (code, reason, recovery) = (
                .strongAuthRequired, "the server wants the user to log in",
                "Start the session by strong authentication."
            )
        default: return .refused(operation, error, status: status)
        }
        return ErsteGroupAuthError(
            operation: operation, code: code, reason: reason, recovery: recovery, serverError: error.error,
            httpStatus: status)
    }

    static func unexpectedStatus(_ operation: String, _ status: Int) -> ErsteGroupAuthError {
        // A gateway that has no server behind it is as good as no network.
        ErsteGroupAuthError(
            operation: operation, code: (502...504).contains(status) ? .network : .server,
            reason: "the server answered with status \(status)", recovery: "Try again later.", httpStatus: status)
    }

    static func invalidResponse(_ operation: String, _ reason: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: .server, reason: reason,
            recovery: "Check the server's address, and that it keeps to the locker protocol.")
    }

    static func cancelled(_ operation: String, _ reason: String = "it was cancelled") -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: .userCancelled, reason: reason, recovery: "Start again when you are ready.")
    }

    /// What the session machine refuses.
    static func refusal(_ operation: String, _ code: Code) -> ErsteGroupAuthError {
        let (reason, recovery): (String, String) =
            switch code {
            case .userInteractionInProgress: ("somebody is being asked already", "Wait for that, or dismiss it.")
            case .notEnrolled: ("this device is not enrolled", "Start a session, which enrols it.")
            case .notActive: ("the session is not active", "Start the session first.")
            case .easyAccessDisabled: ("easy access is not enabled", "Use strong authentication, or enable it.")
            case .easyAccessEnabled: ("easy access is enabled already", "Change it instead.")
            case .offline: ("there is no network", "Try again when there is.")
            case .noActiveUI: ("nobody is being asked", "There is nothing to do.")
            default: ("the session does not allow it", "Look at the status.")
            }
        return ErsteGroupAuthError(operation: operation, code: code, reason: reason, recovery: recovery)
    }

    static func corrupted(_ operation: String, _ reason: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: .storageCorrupted, reason: reason,
            recovery: "Nothing was changed. Destroy the enrolment and enrol anew.")
    }

    /// The server knows nothing of lockers.
    static func noLocker(_ operation: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: .server, reason: "the server offers no locker",
            recovery: "Check the server's address, and ask whoever runs it to switch the locker on.")
    }

    /// The server keeps no shares, and the app has asked for them.
    static func noLevelShares(_ operation: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: .invalidConfiguration,
            reason: "the server keeps no shares of keys, so that no cryptography would tie data to sessions",
            recovery:
                "Use another server; or allow for that, with ‘levelShares’ in a program and --without-shares here.")
    }

    static func invalidConfiguration(_ field: String, _ reason: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: "initialize the locker", code: .invalidConfiguration, reason: "‘\(field)’ \(reason)",
            recovery: "Correct the configuration.")
    }

    /// What matters of it to the session.
    var cause: SessionMachine.Cause {
        switch code {
        case .network: .network
        case .wrongSecret where attemptsLeft == 0: .secretExhausted
        case .easyAccessRevoked: .easyAccessRevoked
        case .enrolmentRevoked: .enrolmentRevoked
        case .verificationUnavailable: .verificationUnavailable
        case .revocationPending: .revocationPending
        default: .other
        }
    }
}
