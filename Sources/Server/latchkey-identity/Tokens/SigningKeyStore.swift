import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// The stored keys that sign ID tokens. Several servers can share them.
struct SigningKeyStore: Sendable {
    let database: any SQLDatabase
    let clock: WallClock
    /// nil if there is no key file.
    let cipher: SigningKeyCipher?

    /// A key, as `signing-keys` prints it. Times are in ISO 8601.
    struct Line: Encodable, Sendable {
        let kid: String
        let algorithm: String
        let state: SigningKeySchedule.State
        let encrypted: Bool
        let createdAt: String
        let signsFrom: String
        /// When the key leaves the key set; nil if no other key follows it.
        let publishedUntil: String?
    }

    enum Removal: Sendable {
        case removed, unknown
        /// The key signs, or begins to sign before all servers know that it is removed.
        case refused
    }

    /// Checks that the key file opens all keys, and creates a key if the algorithm has none.
    ///
    /// - Throws: ``ConfigurationError`` if there is no key file or a wrong one, or a key is not
    ///   encrypted although there is a key file. The database is then unchanged.
    func prepare(_ algorithm: SigningKey.Algorithm) async throws {
        try requireKeyFile()
        try await change { database, now in
            try openAll(in: database)
            if try StoredSigningKey.all(in: database).allSatisfy({ $0.algorithm != algorithm }) {
                try insert(SigningKey(algorithm), algorithm, at: now, signsFrom: now, in: database)
            }
            try deleteExpired(at: now, in: database)
        }
    }

    /// Checks that the key file opens all keys.
    ///
    /// - Throws: ``ConfigurationError``, as ``prepare(_:)``.
    func check() async throws {
        try requireKeyFile()
        try await database.read { try openAll(in: $0) }
    }

    /// Reads the keys of all algorithms, to sign with one of them.
    func keys(signing algorithm: SigningKey.Algorithm) async throws -> SigningKeySet {
        let (rows, now) = try await database.read { [clock] database in
            (try StoredSigningKey.all(in: database), clock.timestamp(in: database))
        }
        return try await SigningKeySet(rows, cipher, signing: algorithm, readAt: now)
    }

    func lines() async throws -> [Line] {
        try await database.read { [clock] database in
            try Self.lines(StoredSigningKey.all(in: database), at: clock.timestamp(in: database))
        }
    }

    /// Publishes a new key for each algorithm that has one. It signs after
    /// ``SigningKeySchedule/publication``.
    ///
    /// - Parameter discarding: Whether to delete all other keys first, also those of the
    ///   attestation authorities, and to sign with the new ones at once. Tokens and certificates of
    ///   the deleted keys become invalid. Does not read the deleted rows.
    /// - Returns: All keys.
    func rotate(discarding: Bool) async throws -> [Line] {
        try requireKeyFile()
        return try await change { database, now in
            let names = try database.rows("SELECT DISTINCT algorithm FROM signing_key").map {
                try $0.text("algorithm")
            }
            let algorithms = SigningKey.Algorithm.allCases.filter { names.contains($0.rawValue) }
            if discarding {
                // Without the key file, the new keys would not be encrypted.
                guard try cipher != nil || !Self.hasEncrypted(in: database) else {
                    throw SigningKeyCipher.missing
                }
                try database.execute("DELETE FROM signing_key")
                for name in AttestationServices.issuerKeys {
                    try database.execute("DELETE FROM secret WHERE name = \(name)")
                }
            } else {
                try openAll(in: database)
                guard !algorithms.isEmpty else {
                    throw ConfigurationError(
                        "the database contains no signing key", "Start a server, which creates one."
                    )
                }
            }
            let start = discarding ? now : now + SigningKeySchedule.publication
            for algorithm in algorithms {
                try insert(
                    SigningKey(algorithm), algorithm, at: now, signsFrom: start, in: database)
            }
            try deleteExpired(at: now, in: database)
            return try Self.lines(StoredSigningKey.all(in: database), at: now)
        }
    }

    /// Encrypts all keys of a SQLite file that was used without a key file.
    ///
    /// - Returns: All keys.
    /// - Throws: ``ConfigurationError`` if a key is encrypted.
    func encrypt() async throws -> [Line] {
        guard let cipher, database.dialect == .sqlite else {
            throw ConfigurationError(
                "signing-keys encrypt needs a SQLite file and a signing key file",
                "Name them with --database FILE --signing-key-file FILE.")
        }
        return try await change { database, now in
            guard try !Self.hasEncrypted(in: database) else {
                throw ConfigurationError(
                    "the database contains encrypted signing keys",
                    "Start the server with the signing key file that encrypted them.")
            }
            let rows = try StoredSigningKey.all(in: database)
            for row in rows { try row.encrypt(with: cipher, in: database) }
            for (name, value) in try Self.issuers(in: database) {
                let sealed = try SigningKeyCipher.seal(
                    SecretBytes(value), .init(kid: name), with: cipher)
                try database.execute("UPDATE secret SET value = \(sealed) WHERE name = \(name)")
            }
            return try Self.lines(StoredSigningKey.all(in: database), at: now)
        }
    }

    /// Removes a key that does not sign. If it signed earlier, removes the keys before it too,
    /// which would otherwise be published again. Tokens that they signed become invalid.
    func remove(_ kid: String) async throws -> Removal {
        try await change { database, now in
            let all = try StoredSigningKey.all(in: database)
            let algorithm = all.first { $0.kid == kid }?.algorithm
            let rows = all.filter { $0.algorithm == algorithm }
            guard let index = rows.firstIndex(where: { $0.kid == kid }) else { return .unknown }
            let schedule = SigningKeySchedule(rows.map(\.signsFrom))
            let states = [now, now + SigningKeySchedule.serverCache].map {
                schedule.state(of: index, at: $0)
            }
            guard !states.contains(.current) else { return .refused }
            for row in states[0] == .next ? rows[index...index] : rows[...index] {
                try database.execute("DELETE FROM signing_key WHERE kid = \(row.kid)")
            }
            return .removed
        }
    }

    // MARK: Parts of transactions

    /// Runs a transaction that excludes other changes of the keys, with the database's time.
    private func change<R: Sendable>(
        _ body: @escaping @Sendable (any SQLConnection, Double) throws -> R
    ) async throws -> R {
        try await database.write { [clock] database in
            try database.lock("signing keys")
            return try body(database, clock.timestamp(rereadIn: database))
        }
    }

    private func requireKeyFile() throws(ConfigurationError) {
        guard cipher != nil || database.dialect == .sqlite else {
            throw ConfigurationError(
                "signing keys in a PostgreSQL database must be encrypted, and there is no signing key file",
                "Create a file of 32 random bytes with mode 600, and name it with --signing-key-file FILE."
            )
        }
    }

    /// Opens all keys, also those of the attestation authorities.
    private func openAll(in database: any SQLConnection) throws {
        for row in try StoredSigningKey.all(in: database) { _ = try row.key(cipher) }
        for (name, value) in try Self.issuers(in: database) {
            _ = try SigningKeyCipher.open(value, .init(kid: name), with: cipher)
        }
    }

    /// The stored keys of the attestation authorities, by their names.
    private static func issuers(in database: any SQLConnection) throws -> [(
        name: String, value: Data
    )] {
        try AttestationServices.issuerKeys.compactMap { name in
            try database.row("SELECT value FROM secret WHERE name = \(name)").map { row in
                (name: name, value: try row.blob("value"))
            }
        }
    }

    /// Whether a key is encrypted. Does not read the other columns, which can be damaged.
    private static func hasEncrypted(in database: any SQLConnection) throws -> Bool {
        let keys = try database.rows("SELECT private_key FROM signing_key").map {
            try $0.blob("private_key")
        }
        return try (keys + issuers(in: database).map { $0.value }).contains(
            where: SigningKeyCipher.isEncrypted)
    }

    private func insert(
        _ key: SigningKey, _ algorithm: SigningKey.Algorithm, at now: Double, signsFrom: Double,
        in database: any SQLConnection
    ) throws {
        try StoredSigningKey(key, algorithm, cipher: cipher, createdAt: now, signsFrom: signsFrom)
            .insert(in: database)
    }

    private func deleteExpired(at now: Double, in database: any SQLConnection) throws {
        for line in Self.lines(try StoredSigningKey.all(in: database), at: now)
        where line.state == .expired {
            try database.execute("DELETE FROM signing_key WHERE kid = \(line.kid)")
        }
    }

    private static func lines(_ rows: [StoredSigningKey], at now: Double) -> [Line] {
        SigningKey.Algorithm.allCases.flatMap { algorithm in
            let rows = rows.filter { $0.algorithm == algorithm }
            let schedule = SigningKeySchedule(rows.map(\.signsFrom))
            return rows.enumerated().map { index, row in
                Line(
                    kid: row.kid, algorithm: algorithm.rawValue,
                    state: schedule.state(of: index, at: now),
                    encrypted: row.isEncrypted, createdAt: Administration.text(row.createdAt),
                    signsFrom: Administration.text(row.signsFrom),
                    publishedUntil: schedule.publishedUntil(index).map(Administration.text))
            }
        }
    }
}
