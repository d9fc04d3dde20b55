public import FoundationEssentials
public import Latchkey

/// Why there is no background access. Two errors are equal when their ``code`` is equal.
public struct BackgroundAccessError: Error, Sendable {
    /// The one word for what went wrong.
    public enum Code: String, Hashable, Sendable {
        /// This device is not enrolled.
        case notEnrolled
        /// The server does not allow it.
        case notPermitted
        /// The server can't be reached.
        case network
        /// The server said something else than its protocol.
        case server
        /// The server no longer knows the enrolment; it was deleted here too.
        case enrolmentRevoked
        /// This device's key, or its store, can't be used.
        case deviceKeyUnavailable
        /// The task was cancelled.
        case cancelled
    }

    /// What happened.
    public let code: Code
    /// The error below.
    public let cause: ErsteGroupAuthError

    init(_ cause: ErsteGroupAuthError) {
        self.cause = cause
        code =
            switch cause.code {
            case .notEnrolled: .notEnrolled
            case .network, .offline: .network
            case .enrolmentRevoked: .enrolmentRevoked
            case .userCancelled: .cancelled
            case .server:
                ["unauthorized_client", "invalid_scope", "unsupported_grant_type"].contains(cause.serverError)
                    ? .notPermitted : .server
            case .strongAuthRequired, .easyAccessRevoked, .userMismatch: .notPermitted
            default: .deviceKeyUnavailable
            }
    }

    /// The same in the vocabulary of `KeystoreError`, from which a program's exit code follows.
    public var keystoreCode: KeystoreError.Code { cause.code.keystoreCode }

    /// What matters of it to the session.
    var answer: SessionMachine.BackgroundAnswer {
        switch code {
        case .enrolmentRevoked: .enrolmentRevoked
        case .deviceKeyUnavailable: .deviceKeyUnusable
        default: .failed
        }
    }
}

extension BackgroundAccessError: Equatable, CustomStringConvertible, LocalizedError {
    public static func == (left: Self, right: Self) -> Bool { left.code == right.code }
    public var description: String { cause.description }
    public var errorDescription: String? { cause.description }
    public var recoverySuggestion: String? { cause.recovery }
}
