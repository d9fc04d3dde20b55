internal import Crypto
internal import Latchkey
internal import TPM2

/// Derives a key's authValue from a PIN of any length and script.
enum PINHardening {
    /// The number of bytes in a key's salt.
    static let saltBytes = 16

    /// Computes `HKDF-SHA256(PIN in UTF-8 and normalization form C, salt, "latchkey/tpm/pin/v1" ‖
    /// digest of the binding, 32 bytes)` without trailing zeros. The PIN therefore fails for a key
    /// that was moved to a row with another ID or label.
    ///
    /// The salt gives two keys with the same PIN different authValues. It does not prevent
    /// guessing: the TPM's counter limits online guesses, and the salted session prevents offline
    /// guesses from recorded traffic.
    ///
    /// - Parameter binding: That of the only key that the PIN opens. Nil for a secret, or for a PIN
    ///   that many keys share.
    static func authValue(
        _ pin: PIN, salt: [UInt8], boundTo binding: KeyBinding?
    ) throws(TPMError) -> AuthValue {
        try pin.withUnsafeBytes { (bytes) throws(TPMError) in
            try derive(bytes, salt, "latchkey/tpm/pin/v1".utf8 + (binding?.digest ?? []))
        }
    }

    /// Computes the authValue of a revocable key without a PIN from the secret in its index:
    /// `HKDF-SHA256(secret, "", "latchkey/tpm/revocable/v1" ‖ digest of the binding, 32 bytes)`.
    static func authValue(
        ofSecret bytes: UnsafeRawBufferPointer, boundTo binding: KeyBinding
    ) throws(TPMError) -> AuthValue {
        try derive(bytes, [], "latchkey/tpm/revocable/v1".utf8 + binding.digest)
    }

    private static func derive(
        _ bytes: UnsafeRawBufferPointer, _ salt: [UInt8], _ info: [UInt8]
    ) throws(TPMError) -> AuthValue {
        let derived = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: bytes), salt: salt, info: info, outputByteCount: 32
        )
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
