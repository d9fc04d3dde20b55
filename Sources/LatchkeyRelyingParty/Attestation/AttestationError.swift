/// Why an attestation proves nothing. Two errors are equal when their ``code`` is.
public struct AttestationError: Error, Sendable, CustomStringConvertible {
    /// What is wrong with it.
    public enum Code: String, Sendable, CaseIterable {
        /// The format is not `tpm`.
        case unsupportedFormat
        /// The bytes are not the structures that they should be.
        case malformed
        /// The statement was not made inside a TPM: its first four bytes are not `TPM_GENERATED_VALUE`.
        case wrongMagic
        /// The statement is about something else than the creation of a key.
        case wrongType
        /// The statement is about another key.
        case wrongName
        /// The key may leave its TPM, was not born in it, or does more than sign.
        case wrongAttributes
        /// The statement answers another challenge.
        case wrongChallenge
        /// The key that signed the statement could sign anything that it is given.
        case unrestrictedAttestationKey
        /// The signature does not verify.
        case invalidSignature
    }

    /// What is wrong with it.
    public let code: Code
    /// What exactly was wrong.
    public let detail: String

    init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    public var description: String { "\(code.rawValue): \(detail)" }
}

extension AttestationError: Equatable {
    public static func == (left: AttestationError, right: AttestationError) -> Bool { left.code == right.code }
}
