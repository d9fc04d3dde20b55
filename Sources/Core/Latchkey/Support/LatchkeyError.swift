public import FoundationEssentials

/// An error of an operation: what failed, why, and the user's next step.
///
/// `KeystoreError` is the error of keys and secrets, `CommonError` that of everything else without
/// codes of its own. Each facade has its own codes. Two errors are equal if their ``code`` is equal;
/// texts and details don't count.
public struct LatchkeyError<ErrorCode: LatchkeyErrorCode>: Error, Sendable {
    /// The type of ``code``.
    public typealias Code = ErrorCode

    /// The operation that failed, as a verb phrase: `sign`, `create a key`. The public call sets
    /// it.
    public private(set) var operation: String
    /// The kind of error.
    public let code: ErrorCode
    /// The cause, as one clause.
    public let reason: String
    /// The next step, in sentences that name no command.
    public var recovery: String { recoveryAction.text }
    /// The next step, with the actions that a program can offer.
    package let recoveryAction: Recovery
    /// The number of wrong PINs before the lockout, or nil if unknown. Set after a wrong PIN.
    public let attemptsLeft: Int?
    /// The end of the lockout, or nil if unknown. Set during a lockout.
    public let lockedOutUntil: Date?
    /// The error of the layer below, or nil.
    public let underlying: UnderlyingError?
    /// Additional facts about this kind of error, or nil.
    package let details: ErrorCode.Details?

    /// Creates an error. Users read `reason` and `recovery`: neither may contain a secret.
    ///
    /// - Parameter operation: A verb phrase. The public call of this package that throws the error
    ///   replaces it.
    public init(
        operation: String = "complete the operation", code: ErrorCode, reason: String,
        recovery: String,
        attemptsLeft: Int? = nil, lockedOutUntil: Date? = nil, underlying: UnderlyingError? = nil
    ) {
        self.init(
            operation: operation, code: code, reason: reason, recovery: Recovery(recovery),
            attemptsLeft: attemptsLeft, lockedOutUntil: lockedOutUntil, underlying: underlying)
    }

    package init(
        operation: String = "complete the operation", code: ErrorCode, reason: String,
        recovery: Recovery,
        attemptsLeft: Int? = nil, lockedOutUntil: Date? = nil, underlying: UnderlyingError? = nil,
        details: ErrorCode.Details? = nil
    ) {
        self.operation = operation
        self.code = code
        self.reason = reason
        recoveryAction = recovery
        self.attemptsLeft = attemptsLeft
        self.lockedOutUntil = lockedOutUntil
        self.underlying = underlying
        self.details = details
    }

    /// This error with another operation, which includes the failed one. A public call ends with
    /// `catch { throw error.during("sign") }`, so that errors name the call of the app.
    package func during(_ operation: String) -> Self {
        var error = self
        error.operation = operation
        return error
    }

    /// The same error with another reason or next step.
    package func with(reason: String? = nil, recovery: Recovery) -> Self {
        LatchkeyError(
            operation: operation, code: code, reason: reason ?? self.reason, recovery: recovery,
            attemptsLeft: attemptsLeft, lockedOutUntil: lockedOutUntil, underlying: underlying,
            details: details)
    }
}

/// The kinds of errors of one part of the package. Later versions can add codes.
public protocol LatchkeyErrorCode: Hashable, Sendable, CustomStringConvertible {
    /// Additional facts about these errors, for example a server's response.
    associatedtype Details: Sendable = Never

    /// The corresponding code of `CommonError`, which determines a program's exit status.
    var commonCode: CommonErrorCode { get }
}

extension LatchkeyErrorCode where Self: RawRepresentable, RawValue == String {
    /// The name of the code, for example `lockedOut`.
    public var description: String { rawValue }
}

/// The error of a lower layer.
public struct UnderlyingError: Hashable, Sendable, CustomStringConvertible {
    /// `tpm`, `tcti`, `pkcs11`, `sqlite`, `pinentry`, `http` …
    public let layer: String
    /// The layer's own code, or nil.
    public let rawCode: UInt32?
    /// The meaning of the code.
    public let text: String

    package init(layer: String, rawCode: UInt32? = nil, text: String) {
        self.layer = layer
        self.rawCode = rawCode
        self.text = text
    }

    public var description: String {
        rawCode.map { "\(layer) 0x\(String($0, radix: 16)): \(text)" } ?? "\(layer): \(text)"
    }
}

extension LatchkeyError: Equatable {
    public static func == (left: Self, right: Self) -> Bool { left.code == right.code }
}

/// Every ``LatchkeyError``, whatever its codes: one `catch` serves an app with several facades.
public protocol ReportableError: LocalizedError, CustomStringConvertible {
    /// The operation that failed, as a verb phrase.
    var operation: String { get }
    /// The cause, as one clause.
    var reason: String { get }
    /// The next step, in sentences that name no command.
    var recovery: String { get }
    /// The closest code of all parts of the package.
    var commonCode: CommonErrorCode { get }
    /// The number of wrong PINs before the lockout, or nil if unknown.
    var attemptsLeft: Int? { get }
    /// The end of the lockout, or nil if unknown.
    var lockedOutUntil: Date? { get }
    /// The error of the layer below, or nil.
    var underlying: UnderlyingError? { get }
}

/// The part of a ``ReportableError`` for this package.
package protocol PackageError: ReportableError {
    /// The name of the code, for example `lockedOut`.
    var codeName: String { get }
    var recoveryAction: Recovery { get }

    func during(_ operation: String) -> Self
}

extension ReportableError {
    /// One sentence: `Could not sign: the PIN is wrong; 2 attempts are left.`
    public var description: String { "Could not \(operation): \(reason)." }
    public var errorDescription: String? { description }
    public var recoverySuggestion: String? { recovery }
}

extension LatchkeyError: CustomStringConvertible, LocalizedError, PackageError {
    package var codeName: String { code.description }
    /// The closest code of ``CommonErrorCode``: that of the cause if another kind of error caused
    /// this one, otherwise the code's own ``LatchkeyErrorCode/commonCode``.
    public var commonCode: CommonErrorCode {
        (details as? any ReportableError)?.commonCode ?? code.commonCode
    }
}

extension Error {
    /// This error with another operation, if it is a ``LatchkeyError``; otherwise the unchanged
    /// error.
    package func during(_ operation: String) -> any Error {
        (self as? any PackageError)?.during(operation) ?? self
    }
}
