internal import Latchkey

/// The management key of a YubiKey, which Yubico's module takes as the security officer's PIN: 24 bytes in 48
/// hexadecimal digits.
///
/// ykcs11 2.2.0 looks at no length: it takes a shorter one as a key that ends in zeros, and sets one that nobody means.
enum ManagementKey {
    private static let digits = 48

    /// Checks a new one before it is set.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput`; nothing has been sent then.
    static func check(_ proof: LoginProof, _ operation: String) throws(KeystoreError) {
        guard case .pin(let pin) = proof else { return }
        let isWellFormed = pin.withUnsafeBytes { bytes in bytes.count == digits && bytes.allSatisfy(isHexadecimal) }
        guard isWellFormed else {
            throw KeystoreError(
                operation: operation, code: .invalidInput,
                reason: "a YubiKey's management key has \(digits) hexadecimal digits, and the new one has not",
                recovery: "Nothing was sent to the token; try again with a key of that form.")
        }
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }
}
