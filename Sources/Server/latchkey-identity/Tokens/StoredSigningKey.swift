import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// A row of the table `signing_key`.
struct StoredSigningKey: Sendable {
    let kid: String
    let algorithm: SigningKey.Algorithm
    /// DER, or its encrypted form (``SigningKeyCipher``).
    let privateKey: Data
    /// Seconds since 1970, as ``signsFrom``.
    let createdAt: Double
    let signsFrom: Double

    /// - Parameter cipher: nil to store the key without encryption.
    init(
        _ key: SigningKey, _ algorithm: SigningKey.Algorithm, cipher: SigningKeyCipher?,
        createdAt: Double,
        signsFrom: Double
    ) throws {
        kid = key.kid
        self.algorithm = algorithm
        privateKey = try SigningKeyCipher.seal(
            key.der, Self.row(key.kid, algorithm, createdAt, signsFrom), with: cipher)
        self.createdAt = createdAt
        self.signsFrom = signsFrom
    }

    /// The columns that the encryption authenticates, so that a writer of the database cannot
    /// change when a key signs.
    private static func row(
        _ kid: String, _ algorithm: SigningKey.Algorithm, _ createdAt: Double, _ signsFrom: Double
    ) -> SigningKeyCipher.Row {
        SigningKeyCipher.Row(kid: kid, columns: "\(algorithm.rawValue)|\(createdAt)|\(signsFrom)")
    }

    var isEncrypted: Bool { SigningKeyCipher.isEncrypted(privateKey) }

    private init(_ row: SQLRow) throws {
        kid = try row.text("kid")
        let name = try row.text("algorithm")
        guard let algorithm = SigningKey.Algorithm(rawValue: name) else {
            throw ConfigurationError(
                "the signing key \(kid) is for the unknown algorithm \(name)",
                "Use the newest version of the server, or replace all keys with: "
                    + "latchkey-identity signing-keys rotate --discard")
        }
        self.algorithm = algorithm
        privateKey = try row.blob("private_key")
        createdAt = try row.real("created_at")
        signsFrom = try row.real("signs_from")
    }

    /// All rows, in the order in which the keys sign.
    static func all(in database: any SQLConnection) throws -> [StoredSigningKey] {
        try database.rows("SELECT * FROM signing_key ORDER BY signs_from, created_at, kid").map(
            StoredSigningKey.init)
    }

    func insert(in database: any SQLConnection) throws {
        try database.execute(
            """
            INSERT INTO signing_key (kid, algorithm, private_key, created_at, signs_from)
            VALUES (\(kid), \(algorithm.rawValue), \(privateKey), \(createdAt), \(signsFrom))
            """)
    }

    /// Replaces the private key, which is stored without encryption, by its encrypted form.
    func encrypt(with cipher: SigningKeyCipher, in database: any SQLConnection) throws {
        let sealed = try Self(
            key(nil), algorithm, cipher: cipher, createdAt: createdAt, signsFrom: signsFrom)
        try database.execute(
            "UPDATE signing_key SET private_key = \(sealed.privateKey) WHERE kid = \(kid)")
    }

    /// Opens the private key.
    ///
    /// - Throws: ``ConfigurationError`` if the key file is missing or another one, the key is not
    ///   encrypted although there is a key file, or the key does not match its ID.
    func key(_ cipher: SigningKeyCipher?) throws -> SigningKey {
        let der = try SigningKeyCipher.open(
            privateKey, Self.row(kid, algorithm, createdAt, signsFrom), with: cipher)
        guard let key = try? SigningKey(algorithm, der: der), key.kid == kid else {
            throw ConfigurationError(
                "the stored signing key \(kid) is damaged",
                "Restore the database, or replace all keys with: latchkey-identity signing-keys rotate --discard"
            )
        }
        return key
    }
}
