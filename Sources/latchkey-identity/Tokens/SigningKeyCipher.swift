import Crypto
import FoundationEssentials
import Latchkey

/// Encrypts signing keys in the database with AES-256-GCM. HKDF-SHA256 derives the key from the operator's key file.
struct SigningKeyCipher: Sendable, RedactedValue {
    /// The permitted lengths of the key file in bytes.
    static let fileLengths = 32...4_096
    /// The first byte of the encrypted form. The 12 bytes of the nonce, the ciphertext and the 16 bytes of the tag follow.
    private static let version: UInt8 = 1
    /// The refusal to open an encrypted key without the key file.
    static let missing = ConfigurationError(
        "the signing keys in the database are encrypted, and there is no signing key file",
        "Name the file that encrypted them with --signing-key-file FILE.")

    private let path: String
    private let key: SymmetricKey

    /// Reads the key file: a regular file that no other user but root can access.
    init(path: String) throws(ConfigurationError) {
        let secret: SecretBytes
        do {
            secret = try SecretFile.read(path, maximumCount: Self.fileLengths.upperBound)
        } catch {
            throw ConfigurationError(
                "the signing key file \(path) cannot be used: \(error.reason)",
                "Name a file that you own, with mode 600.")
        }
        guard secret.count >= Self.fileLengths.lowerBound else {
            throw ConfigurationError(
                "the signing key file \(path) has \(secret.count) bytes, fewer than \(Self.fileLengths.lowerBound)",
                "Create one with: (umask 077; head -c 32 /dev/urandom >FILE)")
        }
        self.path = path
        key = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: secret.withUnsafeBytes { SymmetricKey(data: $0) },
            info: Data("latchkey-identity signing keys v1".utf8), outputByteCount: 32)
    }

    /// Encrypts a private key for the row of this key ID. Another row cannot use the result.
    func seal(_ privateKey: SecretBytes, kid: String) throws -> Data {
        let box = try privateKey.withUnsafeBytes { bytes in
            try AES.GCM.seal(bytes, using: key, authenticating: Data(kid.utf8))
        }
        return Data([Self.version]) + box.nonce + box.ciphertext + box.tag
    }

    /// Whether bytes are in the encrypted form. DER, PEM and JSON begin with other bytes.
    static func isEncrypted(_ bytes: Data) -> Bool { bytes.first == version }

    /// Decrypts the private key of the row of this key ID.
    ///
    /// - Throws: ``ConfigurationError`` if ``seal(_:kid:)`` did not create the bytes with this key file and key ID.
    func open(_ sealed: Data, kid: String) throws(ConfigurationError) -> SecretBytes {
        guard
            Self.isEncrypted(sealed), let box = try? AES.GCM.SealedBox(combined: sealed.dropFirst()),
            var plain = try? AES.GCM.open(box, using: key, authenticating: Data(kid.utf8))
        else {
            throw ConfigurationError(
                "the signing key file \(path) does not decrypt the signing key \(kid)",
                "Name the file that encrypted the keys. If it is lost, or if the rows were changed, replace all keys with: "
                    + "latchkey-identity signing-keys rotate --discard")
        }
        defer { plain.resetBytes(in: plain.startIndex..<plain.endIndex) }
        return SecretBytes(plain)
    }

    var description: String { "‹signing key file \(path)›" }
}
