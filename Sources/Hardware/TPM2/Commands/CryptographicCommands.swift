/// `TPM2_HMAC` (Part 3 section 15.5) with HMAC-SHA-256. A TPM may lack this command: see
/// ``TPM/hasCommand(_:)``.
package struct Hmac: KeyCommand {
    package static let code = TPMCommandCode.hmac
    package static let isResponseSecret = true
    package var key: NamedHandle
    private let message: [UInt8]

    /// - Parameter message: At most 1024 bytes.
    package init(of message: [UInt8], with key: any TPMEntity) {
        self.key = NamedHandle(key)
        self.message = message
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(TPM2B(message), TPMAlgorithm.sha256)
    }

    package func response(from reader: inout TPMReader) throws(TPMError) -> SensitiveData {
        let code = try reader.readSensitive(maximum: 32)
        guard code.count == 32 else { throw .malformed("an HMAC does not have 32 bytes") }
        return code
    }
}

/// `TPM2_Sign` (section 20.2) with a key that is not restricted.
package struct Sign: KeyCommand {
    package typealias Response = TPMSignature
    package static let code = TPMCommandCode.sign
    package static let isResponseSecret = false
    package var key: NamedHandle
    private let digest: [UInt8]
    private let scheme: Scheme

    /// - Parameters:
    ///   - digest: A digest of the length that the scheme's hash has.
    ///   - scheme: The scheme, or null if the public area of the key has one.
    package init(_ digest: [UInt8], with key: any TPMEntity, scheme: Scheme = .null) {
        self.key = NamedHandle(key)
        self.digest = digest
        self.scheme = scheme
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(TPM2B(digest), scheme, Ticket.nullHashCheck)
    }
}
