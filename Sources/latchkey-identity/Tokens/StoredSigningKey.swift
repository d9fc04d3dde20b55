import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// A row of the table `signing_key`.
struct StoredSigningKey: Sendable {
    let kid: String
    let algorithm: SigningKey.Algorithm
    /// DER, or its encrypted form (``SigningKeyCipher``).
    let privateKey: Data
    let isEncrypted: Bool
    /// Seconds since 1970, as ``signsFrom``.
    let createdAt: Double
    let signsFrom: Double

    /// - Parameter cipher: nil to store the key without encryption.
    init(
        _ key: SigningKey, _ algorithm: SigningKey.Algorithm, cipher: SigningKeyCipher?, createdAt: Double,
        signsFrom: Double
    )
        throws
    {
        kid = key.kid
        self.algorithm = algorithm
        let der = key.der
        privateKey = try cipher?.seal(der, kid: key.kid) ?? der.withUnsafeBytes { Data($0) }
        isEncrypted = cipher != nil
        self.createdAt = createdAt
        self.signsFrom = signsFrom
    }

    private init(_ row: SQLRow) throws {
        kid = try row.text("kid")
        let name = try row.text("algorithm")
        guard let algorithm = SigningKey.Algorithm(rawValue: name) else {
            throw ConfigurationError(
                "the signing key \(kid) is for the unknown algorithm \(name)", "Start the newest version of the server."
            )
        }
        self.algorithm = algorithm
        privateKey = try row.blob("private_key")
        isEncrypted = try row.bool("is_encrypted")
        createdAt = try row.real("created_at")
        signsFrom = try row.real("signs_from")
    }

    /// All rows, in the order in which the keys sign.
    static func all(in database: any SQLConnection) throws -> [StoredSigningKey] {
        try database.rows("SELECT * FROM signing_key ORDER BY signs_from, created_at, kid").map(StoredSigningKey.init)
    }

    func insert(in database: any SQLConnection) throws {
        try database.execute(
            """
            INSERT INTO signing_key (kid, algorithm, private_key, is_encrypted, created_at, signs_from)
            VALUES (\(kid), \(algorithm.rawValue), \(privateKey), \(isEncrypted), \(createdAt), \(signsFrom))
            """)
    }

    /// Replaces the stored private key by its encrypted form.
    func encrypt(_ key: SigningKey, with cipher: SigningKeyCipher, in database: any SQLConnection) throws {
        let sealed = try cipher.seal(key.der, kid: kid)
        try database.execute(
            "UPDATE signing_key SET private_key = \(sealed), is_encrypted = \(true) WHERE kid = \(kid)")
    }

    /// Opens the private key.
    ///
    /// - Throws: ``ConfigurationError`` if the key file is missing or another one, or the key does not match its ID.
    func key(_ cipher: SigningKeyCipher?) throws -> SigningKey {
        let der: SecretBytes
        if !isEncrypted {
            der = SecretBytes(privateKey)
        } else if let cipher {
            der = try cipher.open(privateKey, kid: kid)
        } else {
            throw SigningKeyCipher.missing
        }
        guard let key = try? SigningKey(algorithm, der: der), key.kid == kid else {
            throw ConfigurationError(
                "the stored signing key \(kid) is damaged",
                "Restore the database, or replace all keys with: latchkey-identity signing-keys rotate --discard")
        }
        return key
    }
}
