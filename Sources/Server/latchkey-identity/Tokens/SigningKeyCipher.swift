import Crypto
import FoundationEssentials
import Latchkey

/// Encrypts signing keys in the database with AES-256-GCM. HKDF-SHA256 derives the key from the
/// operator's key file.
struct SigningKeyCipher: Sendable, RedactedValue {
    /// The permitted lengths of the key file in bytes.
    static let fileLengths = 32...4_096
    /// The first byte of the encrypted form. The 12 bytes of the nonce, the ciphertext and the 16
    /// bytes of the tag follow.
    private static let version: UInt8 = 1
    /// The refusal to open an encrypted key without the key file.
    static let missing = ConfigurationError(
        "the signing keys in the database are encrypted, and there is no signing key file",
        "Name the file that encrypted them with --signing-key-file FILE.")

    /// The refusal to use a key that is not encrypted although there is a key file. A writer of the
    /// database can have inserted it.
    static let plain = ConfigurationError(
        "the database contains a signing key without encryption, and there is a signing key file",
        "If a server without the file created it in a SQLite file, run: latchkey-identity signing-keys encrypt. Otherwise find out "
            + "who added it, then replace all keys with: latchkey-identity signing-keys rotate --discard"
    )

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
    static func seal(_ privateKey: SecretBytes, _ row: Row, with cipher: SigningKeyCipher?) throws
        -> Data
    {
        try cipher?.seal(privateKey, row) ?? privateKey.withUnsafeBytes { Data($0) }
    }

    /// Reads the stored form. With a key file it must be encrypted, and without one it must not be.
    ///
    /// - Throws: ``ConfigurationError``
    static func open(
        _ stored: Data, _ row: Row, with cipher: SigningKeyCipher?
    ) throws(ConfigurationError) -> SecretBytes {
        switch (cipher, isEncrypted(stored)) {
        case (let cipher?, true): return try cipher.open(stored, row)
        case (_?, false): throw plain
        case (nil, true): throw missing
        case (nil, false): return SecretBytes(stored)
        }
    }

    /// The row of a private key. Another row, or the same row with other columns, cannot use the
    /// encrypted form.
    struct Row: Sendable {
        /// The key ID, or the name of an authority.
        let kid: String
        /// The other columns to authenticate.
        var columns = ""

        fileprivate var authenticated: Data { Data("\(kid)|\(columns)".utf8) }
    }

    private func seal(_ privateKey: SecretBytes, _ row: Row) throws -> Data {
        let box = try privateKey.withUnsafeBytes { bytes in
            try AES.GCM.seal(bytes, using: key, authenticating: row.authenticated)
        }
        return Data([Self.version]) + box.nonce + box.ciphertext + box.tag
    }

    /// Whether bytes are in the encrypted form. DER and JSON begin with other bytes.
    static func isEncrypted(_ bytes: Data) -> Bool { bytes.first == version }

    private func open(_ sealed: Data, _ row: Row) throws(ConfigurationError) -> SecretBytes {
        guard
            let box = try? AES.GCM.SealedBox(combined: sealed.dropFirst()),
            var plain = try? AES.GCM.open(box, using: key, authenticating: row.authenticated)
        else {
            throw ConfigurationError(
                "the signing key file \(path) does not decrypt the signing key \(row.kid)",
                "Name the file that encrypted the keys. If it is lost, or if the rows were changed, replace all keys with: "
                    + "latchkey-identity signing-keys rotate --discard")
        }
        defer { plain.resetBytes(in: plain.startIndex..<plain.endIndex) }
        return SecretBytes(plain)
    }

    var description: String { "‹signing key file \(path)›" }
}
