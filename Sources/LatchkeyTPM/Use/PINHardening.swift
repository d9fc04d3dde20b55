internal import Crypto
internal import Latchkey
internal import TPM2

/// Makes a key's authValue from a PIN of any length and script.
enum PINHardening {
    /// The number of bytes in a key's salt.
    static let saltBytes = 16

    /// `HKDF-SHA256(PIN in UTF-8 and normalization form C, salt, info, 32 bytes)`, zeros at the end left out. The info is
    /// `"latchkey/tpm/pin/v1"`, and for a key with a binding `"latchkey/tpm/pin/v2" ‖ digest`: the right PIN is wrong for
    /// a key in a row with another ID or label.
    ///
    /// The salt makes the authValues of two keys with one PIN different. It is no defence against guessing: that is
    /// the TPM's counter, and the salted session that keeps the wire from being guessed at.
    static func authValue(
        _ pin: PIN, salt: [UInt8], boundTo binding: KeyBinding? = nil
    ) throws(TPMError) -> AuthValue {
        try pin.withUnsafeBytes { (bytes) throws(TPMError) in
            try authValue(
                bytes, salt, binding.map { "latchkey/tpm/pin/v2".utf8 + $0.digest } ?? "latchkey/tpm/pin/v1".utf8 + [])
        }
    }

    /// The authValue of a key whose secret an index keeps: the secret itself, and for a key with a binding
    /// `HKDF-SHA256(secret, "", "latchkey/tpm/revocable/v2" ‖ digest, 32 bytes)`.
    static func authValue(
        ofSecret bytes: UnsafeRawBufferPointer, boundTo binding: KeyBinding?
    ) throws(TPMError) -> AuthValue {
        guard let binding else { return try checked(AuthValue(bytes)) }
        return try authValue(bytes, [], "latchkey/tpm/revocable/v2".utf8 + binding.digest)
    }

    private static func authValue(
        _ bytes: UnsafeRawBufferPointer, _ salt: [UInt8], _ info: [UInt8]
    ) throws(TPMError) -> AuthValue {
        let derived = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: bytes), salt: salt, info: info, outputByteCount: 32)
        return try checked(derived.withUnsafeBytes { AuthValue($0) })
    }

    private static func checked(_ value: AuthValue?) throws(TPMError) -> AuthValue {
        guard let value else { throw TPMError(.malformed, reason: "an authValue is too long") }
        return value
    }

    static func randomSalt() -> [UInt8] {
        SymmetricKey(size: SymmetricKeySize(bitCount: 8 * saltBytes)).withUnsafeBytes(Array.init)
    }
}
