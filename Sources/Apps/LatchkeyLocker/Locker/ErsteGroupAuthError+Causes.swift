internal import Latchkey
internal import LatchkeyOAuth

extension ErsteGroupAuthError {
    /// Converts an error of the hardware, the store or a prompt.
    init(_ error: KeystoreError) {
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
            case .notFound, .unavailable, .unsupported, .wrongState, .refused, .failed: .hardware
            }
        self.init(
            operation: error.operation, code: code, reason: error.reason,
            recovery: error.recoveryAction,
            attemptsLeft: error.attemptsLeft, lockedOutUntil: error.lockedOutUntil,
            underlying: error.underlying)
    }

    /// Converts any error.
    init(any error: any Error) {
        self =
            switch error {
            case let error as ErsteGroupAuthError: error
            case let error as KeystoreError: ErsteGroupAuthError(error)
            case let failure as AuthorizationFailure: ErsteGroupAuthError(.authorization(failure))
            case let flaw as IDTokenFlaw: ErsteGroupAuthError(.idToken(flaw))
            case is CancellationError: .cancelled()
            default:
                ErsteGroupAuthError(
                    code: .hardware, reason: "an unexpected error occurred",
                    recovery: "Try again. If it happens again, report it.",
                    underlying: .init(layer: "latchkey", text: String(describing: type(of: error))))
            }
    }

    /// The error for a refusal by the locker protocol's endpoints and grants. Other endpoints never
    /// end the enrolment, whatever code they return.
    static func refusedByLocker(_ refusal: ServerRefusal) -> ErsteGroupAuthError {
        let (code, reason, recovery): (Code, String, Recovery)
        switch (refusal.status, refusal.oauthError?.error) {
        case (401, "enrolment_revoked"):
            code = .enrolmentRevoked
            (reason, recovery) = (
                "the server no longer knows this device", "Start a session to enrol it again."
            )
        case (400, "easy_access_revoked"):
            code = .easyAccessRevoked
            reason = "the server no longer knows this device's easy access"
            recovery = "Log in by strong authentication, then enable easy access again."
        case (403, "insufficient_user_authentication"), (401, "invalid_token"):
            code = .strongAuthRequired
            (reason, recovery) = (
                "the server requires a login", "Start the session by strong authentication."
            )
        default: return ErsteGroupAuthError(.refused(refusal))
        }
        return ErsteGroupAuthError(code: code, reason: reason, recovery: recovery, details: refusal)
    }

    static func invalidResponse(_ reason: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            code: .server, reason: reason,
            recovery: "Check the server's address, and that it supports the locker protocol.")
    }

    static func cancelled(_ reason: String = "the operation was cancelled") -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            code: .userCancelled, reason: reason, recovery: "Start again when you are ready.")
    }

    /// A call that the session machine refuses.
    static func refusal(_ code: Code) -> ErsteGroupAuthError {
        let (reason, recovery): (String, String) =
            switch code {
            case .userInteractionInProgress:
                ("another call is running", "Wait for its end, or dismiss its prompt.")
            case .notEnrolled: ("this device is not enrolled", "Start a session to enrol it.")
            case .notActive: ("the session is not active", "Start the session first.")
            case .easyAccessDisabled:
                ("easy access is not enabled", "Use strong authentication, or enable it.")
            case .easyAccessEnabled: ("easy access is already enabled", "Change it instead.")
            case .offline: ("there is no network", "Connect to a network, then try again.")
            case .noActiveUI: ("there is no prompt", "There is nothing to dismiss.")
            case .notInitialized: ("the locker is not open", "Initialize it first.")
            case .alreadyInitialized, .invalidConfiguration, .invalidInput, .userCancelled,
                .wrongSecret, .secretLockedOut, .verificationUnavailable, .strongAuthRequired,
                .userMismatch, .network, .server, .refused, .enrolmentRevoked, .easyAccessRevoked,
                .revocationPending, .environmentChanged, .storageCorrupted, .wrongDevice, .conflict,
                .hardware:
                ("the session does not allow it", "Check the status.")
            }
        return ErsteGroupAuthError(code: code, reason: reason, recovery: recovery)
    }

    /// The server does not support the locker protocol.
    static var noLocker: ErsteGroupAuthError {
        ErsteGroupAuthError(
            code: .server, reason: "the server does not support the locker protocol",
            recovery: "Check the server's address, and ask its administrator to enable the locker.")
    }

    static func invalidConfiguration(_ field: String, _ reason: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: "initialize the locker", code: .invalidConfiguration,
            reason: "‘\(field)’ \(reason)",
            recovery: "Correct the configuration.")
    }

    /// The cause that the session machine distinguishes. `secretExhausted` also needs the count.
    var cause: SessionMachine.Cause {
        switch code {
        case .network: .network
        case .easyAccessRevoked: .easyAccessRevoked
        case .enrolmentRevoked: .enrolmentRevoked
        case .verificationUnavailable: .verificationUnavailable
        case .revocationPending: .revocationPending
        case .notInitialized, .alreadyInitialized, .invalidConfiguration, .invalidInput,
            .userInteractionInProgress, .noActiveUI, .userCancelled, .notEnrolled, .notActive,
            .easyAccessDisabled, .easyAccessEnabled, .wrongSecret, .secretLockedOut,
            .strongAuthRequired, .userMismatch, .offline, .server, .refused, .environmentChanged,
            .storageCorrupted, .wrongDevice, .conflict, .hardware:
            .other
        }
    }
}

extension ErsteGroupAuthErrorCode: OAuthErrorCode {
    package init(_ failure: OAuthFailure) {
        self =
            switch failure {
            case .transport(let error): error.code == .cancelled ? .userCancelled : .network
            case .refused(let refusal) where refusal.attestationRefusal != nil: .refused
            case .attestation: .refused
            // A gateway that can't reach the server counts as a missing network.
            case .refused(let refusal)
            where refusal.oauthError == nil && (502...504).contains(refusal.status ?? 0):
                .network
            case .idToken(.login): .strongAuthRequired
            case .authorization(.cancelled), .authorization(.declined), .authorization(.timedOut),
                .authorization(.linkReused):
                .userCancelled
            case .authorization(.noPort), .proof(.noKey), .proof(.lostKey), .proof(.hardware):
                .hardware
            case .invalidAddress, .refused, .malformed, .tokens, .metadata, .missingEndpoint,
                .idToken, .proof(.clock), .proof(.refused),
                .authorization(.refused), .authorization(.otherIssuer):
                .server
            }
    }
}
