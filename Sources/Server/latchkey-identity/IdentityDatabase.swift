import FoundationEssentials
import Latchkey
import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeySQLite

/// The server's database: a SQLite file, memory, or PostgreSQL.
enum IdentityDatabase {
    /// The location of a database in memory.
    static let memory = ":memory:"

    /// Opens a database.
    ///
    /// - Parameters:
    ///   - location: The URI of a PostgreSQL database, the path of a SQLite file, or ``memory``.
    ///   - creating: Whether to create the SQLite file and the tables. Otherwise only checks them.
    ///   - limits: Changes the limits of a PostgreSQL database.
    /// - Throws: ``ConfigurationError``
    static func open(
        _ location: String, creating: Bool,
        limits: (inout PostgreSQLConfiguration) -> Void = { _ in }
    ) async throws -> any SQLDatabase {
        do {
            let database = try database(location, creating, limits)
            if creating || location == memory {
                try await database.migrate(IdentitySchema.migrations)
            } else {
                try await database.requireMigrations(IdentitySchema.migrations)
            }
            return database
        } catch let error as PostgreSQLConfigurationError {
            throw ConfigurationError(sentences: error.description)
        } catch let error as SQLiteFileError {
            let creation =
                error.isMissing
                ? " Create a new database with: latchkey-identity migrate --database \(location)"
                : ""
            throw ConfigurationError(sentences: error.description + creation)
        } catch let error as SQLMigrationError {
            throw ConfigurationError(error.description, error.recovery)
        } catch let error as SQLFailure {
            var failure = ConfigurationError(
                "the database cannot be used: \(error)", error.recovery)
            failure.isTemporary = error.isTemporary && error.code != .refused
            throw failure
        }
    }

    private static func database(
        _ location: String, _ creating: Bool, _ limits: (inout PostgreSQLConfiguration) -> Void
    ) throws -> any SQLDatabase {
        if location == memory { return try SQLiteDatabase() }
        guard !PostgreSQLConfiguration.isAddress(location) else {
            var configuration = PostgreSQLConfiguration(address: location)
            limits(&configuration)
            return try PostgreSQLDatabase(configuration)
        }
        guard !location.contains("://") else {
            throw ConfigurationError(
                "the address of the database does not begin with postgresql://",
                "Use postgresql://HOST/DATABASE, or the path of a SQLite file.")
        }
        return try SQLiteDatabase(path: location, creating: creating)
    }
}

extension SQLFailure {
    fileprivate var recovery: String {
        switch sqlState {
        case "3D000": "Create the database, or correct its name in the address."
        case "28000": "Create the role, or permit its login in pg_hba.conf."
        case "28P01": "Correct the password in the file that PGPASSFILE names."
        case "42501":
            "Run the migrations as the owner of the tables, who grants this role SELECT, INSERT, UPDATE and DELETE on them."
        case nil where message.contains("no password supplied"):
            "Write the password to a file, and name it in PGPASSFILE."
        case nil
        where code == .refused && (message.contains("SSL") || message.contains("certificate")):
            """
            Give the database a certificate for its host name that this machine trusts (sslrootcert), or set sslmode in \
            the address.
            """
        default: "Check its address, its log and the password file."
        }
    }
}

extension SQLMigrationError {
    fileprivate var recovery: String {
        switch code {
        case .noTables, .pending:
            "Check its address, or create the tables with: latchkey-identity migrate"
        case .unknown: "Use the version of latchkey-identity that made them."
        case .changed: "Use another database, or the version of latchkey-identity that made them."
        }
    }
}

/// The server's persistent secrets, created on first use and shared by all servers on the database.
struct SecretStore: Sendable {
    let database: any SQLDatabase
    /// nil if there is no signing key file.
    let cipher: SigningKeyCipher?

    /// Returns the secret of this name. If several processes create it at the same time, all get
    /// the one stored first.
    func value(_ name: String, orMake make: @escaping @Sendable () throws -> Data) async throws
        -> Data
    {
        try await database.write { database in
            if let value = try Self.stored(name, in: database) { return value }
            try database.lock("secret \(name)")
            if let value = try Self.stored(name, in: database) { return value }
            let value = try make()
            try database.execute("INSERT INTO secret (name, value) VALUES (\(name), \(value))")
            return value
        }
    }

    /// Returns the key of this name, which the signing key file encrypts in the database.
    ///
    /// - Throws: ``ConfigurationError`` if the file is missing or another one, or the key is not
    ///   encrypted although there is a file.
    func privateKey(_ name: String, orMake make: @escaping @Sendable () throws -> SecretBytes)
        async throws -> SecretBytes
    {
        guard cipher != nil || database.dialect == .sqlite else { throw SigningKeyCipher.required }
        let stored = try await value(name) { [cipher] in
            try SigningKeyCipher.seal(make(), name, with: cipher)
        }
        return try SigningKeyCipher.open(stored, name, with: cipher)
    }

    /// Runs `body`, which reads the key of this name.
    ///
    /// - Throws: ``ConfigurationError`` if it cannot.
    static func reading<Value>(_ name: String, _ body: () throws -> Value)
        throws(ConfigurationError) -> Value
    {
        do {
            return try body()
        } catch {
            throw ConfigurationError(
                "the row ‘\(name)’ of the table secret is damaged",
                "Restore it from a backup, or delete it: \(SigningKeyCipher.loss(of: name)).")
        }
    }

    private static func stored(_ name: String, in database: any SQLConnection) throws -> Data? {
        try database.row("SELECT value FROM secret WHERE name = \(name)")?.blob("value")
    }
}
