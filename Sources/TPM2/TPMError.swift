/// Why a TPM command gave no result.
///
/// Two errors are equal when their ``kind`` is equal.
public struct TPMError: Error, Sendable {
    /// What went wrong.
    public enum Kind: Hashable, Sendable {
        /// The TPM, or the software in front of it, answered with a response code.
        case response(ResponseCode)
        /// The bytes are not what the specification says.
        case malformed
        /// The response was not authenticated by the session: it did not come from the TPM that the session is with.
        case forged
        /// The TPM can't be reached, or the connection broke.
        case transport(Transport)
        /// This library can't do it.
        case unsupported
    }

    /// Why a TPM can't be reached.
    public enum Transport: Hashable, Sendable {
        /// There is no TPM at that address.
        case absent
        /// Nothing answers at that address, which is not a device: a software TPM or a resource manager does not run.
        case silent
        /// The process may not open the device.
        case forbidden
        /// No answer came in time.
        case timeout
        /// The connection failed in another way.
        case broken
    }

    /// What happened.
    public let kind: Kind
    /// The command that was being executed, where there was one.
    public let command: TPMCommandCode?
    /// A clause that says what happened.
    public let reason: String

    /// An error of the given kind.
    public init(_ kind: Kind, command: TPMCommandCode? = nil, reason: String) {
        self.kind = kind
        self.command = command
        self.reason = reason
    }

    /// The TPM's response code, where it gave one.
    public var responseCode: ResponseCode? {
        if case .response(let code) = kind { code } else { nil }
    }

    static func malformed(_ reason: String) -> TPMError { TPMError(.malformed, reason: reason) }
    static func forged(_ reason: String) -> TPMError { TPMError(.forged, reason: reason) }
    static func unsupported(_ reason: String) -> TPMError { TPMError(.unsupported, reason: reason) }

    func during(_ command: TPMCommandCode) -> TPMError {
        TPMError(kind, command: self.command ?? command, reason: reason)
    }
}

extension TPMError: Equatable {
    public static func == (left: TPMError, right: TPMError) -> Bool { left.kind == right.kind }
}

extension TPMError: CustomStringConvertible {
    /// For example `Sign: session 1: the authorization failed and was counted (0x98e)`.
    public var description: String { command.map { "\($0): \(reason)" } ?? reason }
}
