/// The failure of a TPM command.
///
/// Two errors are equal when their ``kind`` is equal.
public struct TPMError: Error, Sendable {
    /// The kind of failure.
    public enum Kind: Hashable, Sendable {
        /// The TPM, a resource manager or the transport returned a response code.
        case response(ResponseCode)
        /// The bytes do not follow the specification.
        case malformed
        /// The response failed authentication: it did not come from the TPM of the session.
        case forged
        /// The TPM cannot be reached, or the connection failed.
        case transport(Transport)
        /// This library does not support the operation.
        case unsupported
    }

    /// Why a TPM cannot be reached.
    public enum Transport: Hashable, Sendable {
        /// There is no TPM at the address.
        case absent
        /// The address is not a device, and no software TPM or resource manager answers there.
        case silent
        /// The process has no permission to open the device.
        case forbidden
        /// The TPM did not answer before the deadline.
        case timeout
        /// The connection failed in another way.
        case broken
    }

    /// The kind of failure.
    public let kind: Kind
    /// The executed command, if any.
    public let command: TPMCommandCode?
    /// A clause that describes the failure.
    public let reason: String

    /// Creates an error.
    public init(_ kind: Kind, command: TPMCommandCode? = nil, reason: String) {
        self.kind = kind
        self.command = command
        self.reason = reason
    }

    /// The response code, for an error of kind `response`.
    package var responseCode: ResponseCode? {
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
