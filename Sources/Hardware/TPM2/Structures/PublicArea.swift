/// The public area of an object, `TPMT_PUBLIC` (TPM 2.0 Part 2 section 12.2.4).
package struct PublicArea: Hashable, Sendable {
    /// The maximum size of a marshalled public area in bytes: RSA-4096 with a SHA-512 policy,
    /// rounded up.
    package static let maximumBytes = 1024

    /// The part that depends on the type of the object.
    package enum Detail: Hashable, Sendable {
        /// An elliptic-curve key. In a template the point is empty.
        case ecc(ECCParameters, ECCPoint)
        /// An RSA key. In a template the modulus is empty.
        case rsa(RSAParameters, modulus: [UInt8])
        /// An HMAC key or sealed data. The unique field is a digest of the private part.
        case keyedHash(Scheme, unique: [UInt8])
    }

    /// The hash algorithm of the Name and of the policy.
    package var nameAlgorithm: TPMAlgorithm
    /// The permitted uses.
    package var attributes: ObjectAttributes
    /// The digest of the policy that can authorize use, or empty.
    package var authPolicy: [UInt8]
    /// The part that depends on the type of the object.
    package var detail: Detail

    /// Creates a public area, for example a template for a new object.
    package init(
        nameAlgorithm: TPMAlgorithm = .sha256, attributes: ObjectAttributes,
        authPolicy: [UInt8] = [], detail: Detail
    ) {
        self.nameAlgorithm = nameAlgorithm
        self.attributes = attributes
        self.authPolicy = authPolicy
        self.detail = detail
    }

    /// The type of the object: ECC, RSA or keyed hash.
    package var type: TPMAlgorithm {
        switch detail {
        case .ecc: .ecc
        case .rsa: .rsa
        case .keyedHash: .keyedHash
        }
    }

    /// The Name, computed from the public area: `nameAlg ‖ H(marshalled public area)` (TPM 2.0 Part
    /// 1 section 16).
    ///
    /// - Throws: ``TPMError`` of kind `unsupported` when the hash algorithm is not supported.
    package var name: TPMName {
        get throws(TPMError) { try nameAlgorithm.name(of: marshalled) }
    }

    /// The point of a P-256 key, or nil for any other object.
    package var p256Point: ECCPoint? {
        if case .ecc(let parameters, let point) = detail, parameters.curve == .nistP256 {
            point
        } else {
            nil
        }
    }
}

extension PublicArea: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        let type = try reader.read(TPMAlgorithm.self)
        nameAlgorithm = try reader.read()
        attributes = try reader.read()
        authPolicy = try reader.readSized(maximum: 64)
        switch type {
        case .ecc: detail = .ecc(try reader.read(), try reader.read())
        case .rsa: detail = .rsa(try reader.read(), modulus: try reader.readSized(maximum: 512))
        case .keyedHash:
            detail = .keyedHash(try reader.read(), unique: try reader.readSized(maximum: 64))
        default:
            throw .malformed(
                "a public area has the unknown type 0x\(String(type.rawValue, radix: 16))")
        }
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(type, nameAlgorithm, attributes, TPM2B(authPolicy))
        switch detail {
        case .ecc(let parameters, let point): writer.write(parameters, point)
        case .rsa(let parameters, let modulus): writer.write(parameters, TPM2B(modulus))
        case .keyedHash(let scheme, let unique): writer.write(scheme, TPM2B(unique))
        }
    }
}

/// The permitted uses of an object and their authorizations, `TPMA_OBJECT` (TPM 2.0 Part 2 section
/// 8.3).
package struct ObjectAttributes: OptionSet, TPMNumber, Hashable, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// The object cannot be moved to another TPM.
    package static let fixedTPM = ObjectAttributes(rawValue: 1 << 1)
    /// The object cannot be moved to another parent.
    package static let fixedParent = ObjectAttributes(rawValue: 1 << 4)
    /// The TPM generated the private part.
    package static let sensitiveDataOrigin = ObjectAttributes(rawValue: 1 << 5)
    /// The authValue authorizes the USER role.
    package static let userWithAuth = ObjectAttributes(rawValue: 1 << 6)
    /// Only the policy authorizes the ADMIN role.
    package static let adminWithPolicy = ObjectAttributes(rawValue: 1 << 7)
    /// The dictionary-attack protection does not count wrong authorizations.
    package static let noDA = ObjectAttributes(rawValue: 1 << 10)
    /// The key only operates on structures of the TPM.
    package static let restricted = ObjectAttributes(rawValue: 1 << 16)
    /// The key decrypts, or agrees on keys.
    package static let decrypt = ObjectAttributes(rawValue: 1 << 17)
    /// The key signs. A symmetric key encrypts.
    package static let sign = ObjectAttributes(rawValue: 1 << 18)
}

/// The parameters of an elliptic-curve key, `TPMS_ECC_PARMS` (TPM 2.0 Part 2 section 12.2.3.6).
package struct ECCParameters: Hashable, Sendable {
    /// The cipher with which a storage key protects its children, or null.
    package var symmetric: SymmetricDefinition
    /// The only permitted scheme, or null for any.
    package var scheme: Scheme
    /// The curve.
    package var curve: ECCCurve
    /// The key derivation. TPMs only support null.
    package var kdf: Scheme

    /// Creates the parameters of a key.
    package init(
        symmetric: SymmetricDefinition = .null, scheme: Scheme = .null, curve: ECCCurve = .nistP256
    ) {
        self.symmetric = symmetric
        self.scheme = scheme
        self.curve = curve
        kdf = .null
    }
}

extension ECCParameters: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        symmetric = try reader.read()
        scheme = try reader.read()
        curve = try reader.read()
        kdf = try reader.read()
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(symmetric, scheme, curve, kdf)
    }
}

/// A point on a curve, `TPMS_ECC_POINT` (TPM 2.0 Part 2 section 11.2.5.2).
package struct ECCPoint: Hashable, Sendable {
    /// The maximum number of bytes in a coordinate (P-638).
    static let maximumCoordinate = 80

    /// The x coordinate, big-endian. Some TPMs omit leading zeros.
    package let x: [UInt8]
    /// The y coordinate, big-endian. Some TPMs omit leading zeros.
    package let y: [UInt8]

    /// Creates a point. A template contains an empty one.
    package init(x: [UInt8], y: [UInt8]) {
        self.x = x
        self.y = y
    }

    /// Whether both coordinates are empty or zero, as in a template.
    package var isUnset: Bool { x.allSatisfy { $0 == 0 } && y.allSatisfy { $0 == 0 } }

    /// `04 ‖ x ‖ y` with coordinates of 32 bytes (SEC 1 section 2.3.3), or nil if a coordinate is
    /// longer.
    package var p256Representation: [UInt8]? {
        guard let x = x.leftPadded(to: 32), let y = y.leftPadded(to: 32) else { return nil }
        return [4] + x + y
    }
}

extension ECCPoint: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        x = try reader.readSized(maximum: Self.maximumCoordinate)
        y = try reader.readSized(maximum: Self.maximumCoordinate)
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(TPM2B(x), TPM2B(y))
    }
}

extension [UInt8] {
    /// Pads a big-endian number to exactly `count` bytes. Returns nil if it has more.
    fileprivate func leftPadded(to count: Int) -> [UInt8]? {
        let significant = drop { $0 == 0 }
        guard significant.count <= count else { return nil }
        return [UInt8](repeating: 0, count: count - significant.count) + significant
    }
}

/// The parameters of an RSA key, `TPMS_RSA_PARMS` (TPM 2.0 Part 2 section 12.2.3.5).
package struct RSAParameters: Hashable, Sendable {
    /// The cipher with which a storage key protects its children, or null.
    let symmetric: SymmetricDefinition
    /// The only permitted scheme, or null for any.
    let scheme: Scheme
    /// The length of the modulus in bits.
    let keyBits: UInt16
    /// The public exponent. 0 means 65537.
    package let exponent: UInt32

    /// Creates the parameters of a storage key with the exponent 65537.
    package init(symmetric: SymmetricDefinition, keyBits: UInt16) {
        self.symmetric = symmetric
        scheme = .null
        self.keyBits = keyBits
        exponent = 0
    }
}

extension RSAParameters: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        symmetric = try reader.read()
        scheme = try reader.read()
        keyBits = try reader.read()
        exponent = try reader.read()
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(symmetric, scheme, keyBits, exponent)
    }
}
