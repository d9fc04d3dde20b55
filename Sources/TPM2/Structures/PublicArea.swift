/// The public part of an object, `TPMT_PUBLIC` (TPM 2.0 Part 2 section 12.2.4).
public struct PublicArea: Hashable, Sendable {
    /// The most bytes that a marshalled public area has: RSA-4096 with a SHA-512 policy, rounded up.
    public static let maximumBytes = 1024

    /// What depends on the object's type.
    public enum Detail: Hashable, Sendable {
        /// A key on a curve. In a template the point is empty.
        case ecc(ECCParameters, ECCPoint)
        /// An RSA key. In a template the modulus is empty.
        case rsa(RSAParameters, modulus: [UInt8])
        /// An HMAC key or sealed data. The unique field is a digest of the secret part.
        case keyedHash(Scheme, unique: [UInt8])
    }

    /// The hash of its Name and of its policy.
    public var nameAlgorithm: TPMAlgorithm
    /// What it may do.
    public var attributes: ObjectAttributes
    /// The digest of the policy that can authorize use, or empty.
    public var authPolicy: [UInt8]
    /// What depends on its type.
    public var detail: Detail

    /// A public area; in a template that of the object to make.
    public init(
        nameAlgorithm: TPMAlgorithm = .sha256, attributes: ObjectAttributes, authPolicy: [UInt8] = [], detail: Detail
    ) {
        self.nameAlgorithm = nameAlgorithm
        self.attributes = attributes
        self.authPolicy = authPolicy
        self.detail = detail
    }

    /// The type of the object: ECC, RSA or keyed hash.
    public var type: TPMAlgorithm {
        switch detail {
        case .ecc: .ecc
        case .rsa: .rsa
        case .keyedHash: .keyedHash
        }
    }

    /// The Name: `nameAlg ‖ H(marshalled public area)`, computed here (TPM 2.0 Part 1 section 16).
    ///
    /// - Throws: ``TPMError`` of kind `unsupported` when the hash algorithm is unknown here.
    public var name: TPMName {
        get throws(TPMError) {
            TPMName(bytes: nameAlgorithm.marshalled + (try nameAlgorithm.digest(of: marshalled)))
        }
    }

    /// The point of a P-256 key.
    public var p256Point: ECCPoint? {
        if case .ecc(let parameters, let point) = detail, parameters.curve == .nistP256 { point } else { nil }
    }
}

extension PublicArea: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        let type = try reader.read(TPMAlgorithm.self)
        nameAlgorithm = try reader.read()
        attributes = ObjectAttributes(rawValue: try reader.read())
        authPolicy = try reader.readSized(maximum: 64)
        switch type {
        case .ecc: detail = .ecc(try reader.read(), try reader.read())
        case .rsa: detail = .rsa(try reader.read(), modulus: try reader.readSized(maximum: 512))
        case .keyedHash: detail = .keyedHash(try reader.read(), unique: try reader.readSized(maximum: 64))
        default: throw .malformed("a public area has the unknown type 0x\(String(type.rawValue, radix: 16))")
        }
    }

    public func marshal(into writer: inout TPMWriter) {
        writer.write(type)
        writer.write(nameAlgorithm)
        writer.write(attributes.rawValue)
        writer.writeSized(authPolicy)
        switch detail {
        case .ecc(let parameters, let point):
            writer.write(parameters)
            writer.write(point)
        case .rsa(let parameters, let modulus):
            writer.write(parameters)
            writer.writeSized(modulus)
        case .keyedHash(let scheme, let unique):
            writer.write(scheme)
            writer.writeSized(unique)
        }
    }
}
