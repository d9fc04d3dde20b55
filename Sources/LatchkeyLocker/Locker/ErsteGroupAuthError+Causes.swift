internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

extension ErsteGroupAuthError {
    /// Converts an error of the hardware, the store or a prompt.
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

    /// Converts a failure of the login in the browser.
    init(_ operation: String, _ failure: AuthorizationFailure) {
        self =
            switch failure {
            case .cancelled: .cancelled(operation)
            case .refused(let error) where ["cancel", "access_denied"].contains(error.error):
                .cancelled(operation, "it was cancelled in the browser")
            case .timedOut: .cancelled(operation, "the login in the browser timed out")
            case .linkReused:
                ErsteGroupAuthError(
                    operation: operation, code: .userCancelled,
                    reason: "the link to the login page was opened twice, the first time possibly by another user",
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
                reason: "the server reused an earlier login",
                recovery: "Log in again. The channel must request a new login from the server.")
            return
        }
        self = .invalidResponse(operation, "the server's ID token \(flaw.reason)")
    }

    /// Converts any error.
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
                    operation: operation, code: .hardware, reason: "an unexpected error occurred",
                    recovery: "Try again. If it happens again, report it.",
                    underlying: .init(layer: "latchkey", text: String(describing: type(of: error))))
            }
    }

    static func transport(_ operation: String, _ error: KeystoreError) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: error.code == .cancelled ? .userCancelled : .network, reason: error.reason,
            recovery: error.recovery, underlying: error.underlying)
    }

    /// An error of the browser or of an endpoint outside the locker protocol. It never ends the enrolment, whatever its
    /// code is.
    static func refused(_ operation: String, _ error: OAuth2Error, status: Int?) -> ErsteGroupAuthError {
        let refusal = ServerRefusal(error, status: status)
        return ErsteGroupAuthError(
            operation: operation, code: .server, reason: refusal.reason, recovery: refusal.recovery,
            serverError: error.error, httpStatus: status)
    }

    /// An error of an endpoint or grant of the locker protocol, by its status and code.
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
                .strongAuthRequired, "the server requires a login",
                "Start the session by strong authentication."
            )
        default: return .refused(operation, error, status: status)
        }
        return ErsteGroupAuthError(
            operation: operation, code: code, reason: reason, recovery: recovery, serverError: error.error,
            httpStatus: status)
    }

    static func unexpectedStatus(_ operation: String, _ status: Int) -> ErsteGroupAuthError {
        // A gateway that can't reach the server counts as a missing network.
        ErsteGroupAuthError(
            operation: operation, code: (502...504).contains(status) ? .network : .server,
            reason: "the server answered with status \(status)", recovery: "Try again later.", httpStatus: status)
    }

    static func invalidResponse(_ operation: String, _ reason: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: .server, reason: reason,
            recovery: "Check the server's address, and that it supports the locker protocol.")
    }

    static func cancelled(_ operation: String, _ reason: String = "it was cancelled") -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: .userCancelled, reason: reason, recovery: "Start again when you are ready.")
    }

    /// A call that the session machine refuses.
    static func refusal(_ operation: String, _ code: Code) -> ErsteGroupAuthError {
        let (reason, recovery): (String, String) =
            switch code {
            case .userInteractionInProgress: ("another call is running", "Wait for its end, or dismiss its prompt.")
            case .notEnrolled: ("this device is not enrolled", "Start a session to enrol it.")
            case .notActive: ("the session is not active", "Start the session first.")
            case .easyAccessDisabled: ("easy access is not enabled", "Use strong authentication, or enable it.")
            case .easyAccessEnabled: ("easy access is already enabled", "Change it instead.")
            case .offline: ("there is no network", "Connect to a network, then try again.")
            case .noActiveUI: ("there is no prompt", "There is nothing to dismiss.")
            default: ("the session does not allow it", "Check the status.")
            }
        return ErsteGroupAuthError(operation: operation, code: code, reason: reason, recovery: recovery)
    }

    static func corrupted(_ operation: String, _ reason: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: .storageCorrupted, reason: reason,
            recovery: "Nothing was changed. Destroy the enrolment and enrol again.")
    }

    /// The server does not support the locker protocol.
    static func noLocker(_ operation: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: .server, reason: "the server does not support the locker protocol",
            recovery: "Check the server's address, and ask its administrator to enable the locker.")
    }

    /// The server does not store level shares, and the configuration requires them.
    static func noLevelShares(_ operation: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: operation, code: .invalidConfiguration,
            reason: "the server stores no key shares, so cryptography would not bind data to sessions",
            recovery: "Use another server, or allow this with ‘levelShares’ in a program or --without-shares here.")
    }

    static func invalidConfiguration(_ field: String, _ reason: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: "initialize the locker", code: .invalidConfiguration, reason: "‘\(field)’ \(reason)",
            recovery: "Correct the configuration.")
    }

    /// The cause that the session machine distinguishes.
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
