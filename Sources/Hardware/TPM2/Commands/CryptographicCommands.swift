/// `TPM2_ECDH_ZGen` (Part 3 section 14.5): multiplies a point by the private key.
package struct ECDHZGen: TPMCommand {
    package static let code = TPMCommandCode.ecdhZGen
    package static let authorizedHandles = 1
    package let entities: [NamedHandle]
    private let point: ECCPoint

    package init(_ point: ECCPoint, with key: TPMObject) {
        entities = NamedHandle.area(key)
        self.point = point
    }

    package func marshal(into writer: inout TPMWriter) { writer.write(TPM2B(point)) }

    package func response(from reader: inout TPMReader) throws(TPMError) -> ECCPoint {
        try reader.readSized(ECCPoint.self, maximum: 256)
    }
}

/// `TPM2_HMAC` (section 15.5) with HMAC-SHA-256. A TPM may lack this command: see
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

/// `TPM2_GetRandom` (section 16.1). A TPM returns at most the size of its largest digest.
package struct GetRandom: TPMCommand {
    package static let code = TPMCommandCode.getRandom
    private let count: UInt16

    package init(_ count: UInt16) { self.count = count }

    package func marshal(into writer: inout TPMWriter) { writer.write(count) }

    package func response(from reader: inout TPMReader) throws(TPMError) -> [UInt8] {
        try reader.readSized(maximum: Int(count))
    }
}

/// `TPM2_VerifySignature` (section 20.1). The response code is `signature` when the signature is
/// not valid.
package struct VerifySignature: TPMCommand {
    package typealias Response = Ticket
    package static let code = TPMCommandCode.verifySignature
    package let entities: [NamedHandle]
    private let digest: [UInt8]
    private let signature: TPMSignature

    package init(_ signature: TPMSignature, over digest: [UInt8], by key: TPMObject) {
        entities = NamedHandle.area(key)
        self.digest = digest
        self.signature = signature
    }

    package func marshal(into writer: inout TPMWriter) { writer.write(TPM2B(digest), signature) }
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

extension TPM {
    /// Returns random bytes of the TPM.
    package func getRandom(_ count: UInt16) throws(TPMError) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let more = try execute(GetRandom(count - UInt16(bytes.count)))
            guard !more.isEmpty else {
                throw TPMError(
                    .malformed, command: .getRandom, reason: "the TPM returned no random bytes")
            }
            bytes += more
        }
        return bytes
    }
}
