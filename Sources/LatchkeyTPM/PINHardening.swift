internal import Crypto
internal import Latchkey
internal import TPM2

/// Makes a key's authValue from a PIN of any length and script.
enum PINHardening {
    /// The number of bytes in a key's salt.
    static let saltBytes = 16

    private static let info = Array("latchkey/tpm/pin/v1".utf8)

    /// `HKDF-SHA256(PIN in UTF-8 and normalization form C, salt, "latchkey/tpm/pin/v1", 32 bytes)`, zeros at the end
    /// left out.
    ///
    /// The salt makes the authValues of two keys with one PIN different. It is no defence against guessing: that is
    /// the TPM's counter, and the salted session that keeps the wire from being guessed at.
    static func authValue(_ pin: PIN, salt: [UInt8]) throws(TPMError) -> AuthValue {
        let derived = pin.withUnsafeBytes { bytes in
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: SymmetricKey(data: bytes), salt: salt, info: info, outputByteCount: 32)
        }
        guard let value = derived.withUnsafeBytes({ AuthValue($0) }) else {
            throw TPMError(.unsupported, reason: "a derived authValue is too long")
        }
        return value
    }

    static func randomSalt() -> [UInt8] {
        SymmetricKey(size: SymmetricKeySize(bitCount: 8 * saltBytes)).withUnsafeBytes(Array.init)
    }
}
