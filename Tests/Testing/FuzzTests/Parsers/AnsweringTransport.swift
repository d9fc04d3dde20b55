@testable import TPM2

/// Answers the first command with the bytes, and later commands with an empty success response.
final class AnsweringTransport: TPMTransport {
    private static let success: [UInt8] = [0x80, 0x01, 0, 0, 0, 10, 0, 0, 0, 0]

    private var first: [UInt8]?

    init(_ response: [UInt8]) { first = response }

    func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8] {
        defer { first = nil }
        return first ?? Self.success
    }

    func close() {}
}

/// Answers like a TPM that knows the session's key.
final class ProvingTransport: TPMTransport {
    private let session: Session
    private let parameters: [UInt8]
    private let encrypts: Bool

    init(session: Session, parameters: [UInt8], encrypts: Bool) {
        self.session = session
        self.parameters = parameters
        self.encrypts = encrypts
    }

    func exchange(_ command: [UInt8]) throws(TPMError) -> [UInt8] {
        let code = TPMCommandCode(rawValue: command[6..<10].reduce(0) { $0 << 8 | UInt32($1) })
        let nonce = [UInt8](repeating: 4, count: 32)
        let attributes: SessionAttributes = encrypts ? .encrypt : []
        var answer = TPMWriter()
        answer.write(MessageTag.sessions)
        answer.write(UInt32(0))
        answer.write(ResponseCode.success.rawValue)
        answer.write(UInt32(parameters.count))
        answer.write(parameters)
        answer.writeSized(nonce)
        answer.write(attributes.rawValue)
        answer.writeSized(
            session.hmac(
                of: ParameterHash.response(code, parameters: parameters), .response,
                nonceTPM: nonce,
                attributes: attributes, authValue: .empty))
        return answer.bytes.withTrueSize
    }

    func close() {}
}

extension [UInt8] {
    /// A TPM's response with the correct size in its header.
    var withTrueSize: [UInt8] {
        guard count >= 10 else { return self }
        return self[..<2] + (0..<4).map { UInt8(truncatingIfNeeded: count >> (24 - 8 * $0)) }
            + self[6...]
    }
}
