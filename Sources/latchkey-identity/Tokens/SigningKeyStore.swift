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
    /// If no key is encrypted, the key file encrypts all of them. Keys of earlier versions, in the table `secret`, are moved.
    ///
    /// - Throws: ``ConfigurationError`` if there is no key file or a wrong one. The database is then unchanged.
    func prepare(_ algorithm: SigningKey.Algorithm) async throws {
        try requireKeyFile()
        try await change { database, now in
            try openAll(StoredSigningKey.all(in: database), in: database)
            try adopt(at: now, in: database)
            if try StoredSigningKey.all(in: database).allSatisfy({ $0.algorithm != algorithm }) {
                try insert(SigningKey(algorithm), algorithm, at: now, signsFrom: now, in: database)
            }
            try deleteExpired(at: now, in: database)
        }
    }

    /// Reads the keys of an algorithm.
    ///
    /// - Parameter known: An earlier result, whose keys need not be decrypted again.
    func keys(of algorithm: SigningKey.Algorithm, known: SigningKeySet? = nil) async throws -> SigningKeySet {
        let (rows, now) = try await database.read { [clock] database in
            (
                try StoredSigningKey.all(in: database).filter { $0.algorithm == algorithm },
                clock.timestamp(in: database)
            )
        }
        // Only a start encrypts keys. Another row without encryption is not from a server or command with this key file.
        guard cipher == nil || rows.allSatisfy(\.isEncrypted) else { throw Self.mixed }
        let keys = try rows.map { row in try known?.keys.first { $0.kid == row.kid } ?? row.key(cipher) }
        return try await SigningKeySet(keys, SigningKeySchedule(rows.map(\.signsFrom)), readAt: now)
    }

    func lines() async throws -> [Line] {
        try await database.read { [clock] database in
            try Self.lines(StoredSigningKey.all(in: database), at: clock.timestamp(in: database))
        }
    }

    /// Publishes a new key for each algorithm that has one. It signs after ``SigningKeySchedule/publication``.
    ///
    /// - Parameter discarding: Whether to delete all other keys first, and to sign with the new ones at once. Tokens of the deleted
    ///   keys become invalid.
    /// - Returns: All keys.
    func rotate(discarding: Bool) async throws -> [Line] {
        try requireKeyFile()
        return try await change { database, now in
            let rows = try StoredSigningKey.all(in: database)
            let algorithms = SigningKey.Algorithm.allCases.filter { algorithm in
                rows.contains { $0.algorithm == algorithm }
            }
            guard !algorithms.isEmpty else {
                throw ConfigurationError("the database contains no signing key", "Start a server, which creates one.")
            }
            if discarding {
                try database.execute("DELETE FROM signing_key")
                try discardUnreadableIssuers(in: database)
            } else {
                try openAll(rows, in: database)
            }
            let start = discarding ? now : now + SigningKeySchedule.publication
            for algorithm in algorithms {
                try insert(SigningKey(algorithm), algorithm, at: now, signsFrom: start, in: database)
            }
            try deleteExpired(at: now, in: database)
            return try Self.lines(StoredSigningKey.all(in: database), at: now)
        }
    }

    /// Removes a key that does not sign. Tokens that it signed become invalid.
    func remove(_ kid: String) async throws -> Removal {
        try await change { database, now in
            let rows = try StoredSigningKey.all(in: database)
            let times = [now, now + SigningKeySchedule.serverCache]
            guard rows.contains(where: { $0.kid == kid }) else { return .unknown }
            guard !times.contains(where: { Self.states(rows, at: $0)[kid] == .current }) else { return .refused }
            try database.execute("DELETE FROM signing_key WHERE kid = \(kid)")
            return .removed
        }
    }

    /// Deletes the keys that are no longer used.
    func deleteExpired() async throws {
        try await change { database, now in try deleteExpired(at: now, in: database) }
    }

    // MARK: Parts of transactions

    /// Runs a transaction that excludes other changes of the keys, with the database's time.
    private func change<R: Sendable>(
        _ body: @escaping @Sendable (any SQLConnection, Double) throws -> R
    ) async throws -> R {
        try await database.write { [clock] database in
            try database.lock("signing keys")
            return try body(database, clock.timestamp(in: database))
        }
    }

    private func requireKeyFile() throws(ConfigurationError) {
        guard cipher != nil || database.dialect == .sqlite else {
            throw ConfigurationError(
                "signing keys in a PostgreSQL database must be encrypted, and there is no signing key file",
                "Create a file of 32 random bytes with mode 600, and name it with --signing-key-file FILE.")
        }
    }

    /// Opens all keys. Encrypts them if there is a key file and none is encrypted.
    private func openAll(_ rows: [StoredSigningKey], in database: any SQLConnection) throws {
        let isEncrypted = rows.first?.isEncrypted ?? true
        guard rows.allSatisfy({ $0.isEncrypted == isEncrypted }) else { throw Self.mixed }
        for row in rows {
            let key = try row.key(cipher)
            if let cipher, !isEncrypted { try row.encrypt(key, with: cipher, in: database) }
        }
    }

    /// Deletes the authorities' keys that the key file does not decrypt. Servers create new ones when they start.
    private func discardUnreadableIssuers(in database: any SQLConnection) throws {
        for name in AttestationServices.issuerKeys {
            guard
                let value = try database.row("SELECT value FROM secret WHERE name = \(name)")?.blob("value"),
                SigningKeyCipher.isEncrypted(value), (try? cipher?.open(value, kid: name)) == nil
            else { continue }
            try database.execute("DELETE FROM secret WHERE name = \(name)")
        }
    }

    /// Moves the keys of earlier versions, which had one for each algorithm.
    private func adopt(at now: Double, in database: any SQLConnection) throws {
        for algorithm in SigningKey.Algorithm.allCases {
            let name = "id token key \(algorithm.rawValue)"
            guard let old = try database.row("SELECT value FROM secret WHERE name = \(name)") else { continue }
            if try StoredSigningKey.all(in: database).allSatisfy({ $0.algorithm != algorithm }) {
                let key = try SigningKey(algorithm, pem: String(decoding: old.blob("value"), as: UTF8.self))
                try insert(key, algorithm, at: now, signsFrom: now, in: database)
            }
            try database.execute("DELETE FROM secret WHERE name = \(name)")
        }
    }

    private func insert(
        _ key: SigningKey, _ algorithm: SigningKey.Algorithm, at now: Double, signsFrom: Double,
        in database: any SQLConnection
    ) throws {
        try StoredSigningKey(key, algorithm, cipher: cipher, createdAt: now, signsFrom: signsFrom).insert(in: database)
    }

    private func deleteExpired(at now: Double, in database: any SQLConnection) throws {
        for (kid, state) in Self.states(try StoredSigningKey.all(in: database), at: now) where state == .expired {
            try database.execute("DELETE FROM signing_key WHERE kid = \(kid)")
        }
    }

    /// The states of the keys by their IDs.
    private static func states(_ rows: [StoredSigningKey], at now: Double) -> [String: SigningKeySchedule.State] {
        Dictionary(grouping: rows, by: \.algorithm).values.reduce(into: [:]) { states, rows in
            let schedule = SigningKeySchedule(rows.map(\.signsFrom))
            for (index, row) in rows.enumerated() { states[row.kid] = schedule.state(of: index, at: now) }
        }
    }

    private static func lines(_ rows: [StoredSigningKey], at now: Double) -> [Line] {
        SigningKey.Algorithm.allCases.flatMap { algorithm in
            let rows = rows.filter { $0.algorithm == algorithm }
            let schedule = SigningKeySchedule(rows.map(\.signsFrom))
            return rows.enumerated().map { index, row in
                Line(
                    kid: row.kid, algorithm: algorithm.rawValue, state: schedule.state(of: index, at: now),
                    encrypted: row.isEncrypted, createdAt: Administration.text(row.createdAt),
                    signsFrom: Administration.text(row.signsFrom),
                    publishedUntil: schedule.publishedUntil(index).map(Administration.text))
            }
        }
    }

    private static let mixed = ConfigurationError(
        "the database contains signing keys without encryption that no server with this signing key file stored",
        "Find out who added them, then replace all keys with: latchkey-identity signing-keys rotate --discard")
}
