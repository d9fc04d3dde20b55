internal import Crypto

/// Public areas, written down byte by byte from the specification, as `TPM2B_PUBLIC`.
enum OracleTemplates {
    /// The storage key of the TCG's EK and SRK guidance: P-256, AES-128-CFB, restricted decryption,
    /// noDA.
    static let storage = MarshallingUnit.sized(
        [0x00, 0x23, 0x00, 0x0B]  // ECC, name by SHA-256
            // fixedTPM fixedParent sensitiveDataOrigin userWithAuth noDA restricted decrypt
            + [0x00, 0x03, 0x04, 0x72]
            + [0x00, 0x00]  // no policy
            + [0x00, 0x06, 0x00, 0x80, 0x00, 0x43]  // AES, 128 bits, CFB
            + [0x00, 0x10, 0x00, 0x03, 0x00, 0x10]  // no scheme, P-256, no KDF
            + [0x00, 0x00, 0x00, 0x00])  // x and y

    /// A signing key: P-256, ECDSA with SHA-256, userWithAuth, guarded against guessing.
    static let signing = signing(policy: [], attributes: 0x0004_0072)

    /// Sealed data: fixedTPM, fixedParent, userWithAuth; guarded against guessing.
    static let sealed = MarshallingUnit.sized(
        [0x00, 0x08, 0x00, 0x0B, 0x00, 0x00, 0x00, 0x52] + [0x00, 0x00] + [0x00, 0x10] + [
            0x00, 0x00,
        ])

    /// A signing key with a policy.
    ///
    /// - Parameter attributes: 0x00040072 is fixedTPM, fixedParent, sensitiveDataOrigin,
    ///   userWithAuth, sign.
    static func signing(policy: [UInt8], attributes: UInt32) -> [UInt8] {
        let attributes = withUnsafeBytes(of: attributes.bigEndian) { Array($0) }
        return MarshallingUnit.sized(
            [0x00, 0x23, 0x00, 0x0B] + attributes + MarshallingUnit.sized(policy)
                + [0x00, 0x10]  // no symmetric algorithm
                + [0x00, 0x18, 0x00, 0x0B]  // ECDSA with SHA-256
                + [0x00, 0x03, 0x00, 0x10]  // P-256, no KDF
                + [0x00, 0x00, 0x00, 0x00])  // x and y
    }
}

extension OracleTemplates {
    /// A public key from outside that verifies ECDSA with SHA-256.
    static func verifying(_ key: P256.Signing.PublicKey) -> [UInt8] {
        let point = Array(key.rawRepresentation)
        return MarshallingUnit.sized(
            [0x00, 0x23, 0x00, 0x0B]
                + [0x00, 0x04, 0x00, 0x40]  // userWithAuth, sign
                + [0x00, 0x00]
                + [0x00, 0x10]
                + [0x00, 0x18, 0x00, 0x0B]
                + [0x00, 0x03, 0x00, 0x10]
                + MarshallingUnit.sized(Array(point.prefix(32)))
                + MarshallingUnit.sized(Array(point.suffix(32))))
    }
}
