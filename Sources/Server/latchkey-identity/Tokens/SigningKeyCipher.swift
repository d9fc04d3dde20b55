import Crypto
import FoundationEssentials
import Latchkey

/// Encrypts keys in the database with AES-256-GCM: those that sign ID tokens, certify attestation
/// keys and seal the locker's shares. HKDF-SHA256 derives its key from the operator's key file.
struct SigningKeyCipher: Sendable, RedactedValue {
    /// The permitted lengths of the key file in bytes.
    static let fileLengths = 32...4_096
    /// The first byte of the encrypted form. The 12 bytes of the nonce, the ciphertext and the 16
    /// bytes of the tag follow.
    private static let version: UInt8 = 1
    /// The first byte of a key that is not encrypted.
    private static let plain: UInt8 = 0
    /// The refusal to open an encrypted key without the key file.
    private static let missing = ConfigurationError(
        "the signing keys in the database are encrypted, and there is no signing key file",
        "Name the file that encrypted them with --signing-key-file FILE.")
    /// The refusal to store a key in PostgreSQL without encryption.
    static let required = ConfigurationError(
        "signing keys in a PostgreSQL database must be encrypted, and there is no signing key file",
        "Create a file of 32 random bytes with mode 600, and name it with --signing-key-file FILE.")

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

    /// The stored form of a private key: encrypted if there is a key file.
    ///
    /// - Parameter name: The key's name. Another row cannot use the encrypted form.
    static func seal(_ privateKey: SecretBytes, _ name: String, with cipher: SigningKeyCipher?)
        throws -> Data
    {
        try privateKey.withUnsafeBytes { bytes in
            guard let cipher else { return Data([plain]) + bytes }
            let box = try AES.GCM.seal(bytes, using: cipher.key, authenticating: Data(name.utf8))
            return Data([version]) + box.nonce + box.ciphertext + box.tag
        }
    }

    /// Reads the stored form. With a key file it must be encrypted, and without one it must not be.
    ///
    /// - Throws: ``ConfigurationError``
    static func open(_ stored: Data, _ name: String, with cipher: SigningKeyCipher?)
        throws(ConfigurationError) -> SecretBytes
    {
        let isEncrypted = stored.first == version
        guard let cipher else {
            guard !isEncrypted else { throw missing }
            return SecretBytes(stored.dropFirst())
        }
        // A writer of the database can have inserted it.
        guard isEncrypted else {
            throw ConfigurationError(
                "the database contains the \(name) without encryption, and there is a signing key file",
                "Start the server without the file, or delete this row of the table secret: \(loss(of: name))."
            )
        }
        guard
            let box = try? AES.GCM.SealedBox(combined: stored.dropFirst()),
            var key = try? AES.GCM.open(
                box, using: cipher.key, authenticating: Data(name.utf8))
        else {
            throw ConfigurationError(
                "the signing key file \(cipher.path) does not decrypt the \(name)",
                "Name the file that encrypted it. If it is lost, delete this row of the table secret: \(loss(of: name))."
            )
        }
        defer { key.resetBytes(in: key.startIndex..<key.endIndex) }
        return SecretBytes(key)
    }

    /// What the deletion of a key's row means.
    static func loss(of name: String) -> String {
        name.hasPrefix("locker")
            ? "no locker opens its secrets again"
            : "the tokens and certificates of the key become invalid"
    }

    var description: String { "‹signing key file \(path)›" }
}
