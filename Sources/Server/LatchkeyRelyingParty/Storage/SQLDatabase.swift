/// A database for the stores of this library: SQLite (`SQLiteDatabase` of `LatchkeySQLite`),
/// PostgreSQL (`PostgreSQLDatabase` of `LatchkeyPostgreSQL`), or another client of these engines.
///
/// The body of a transaction is synchronous: it contains statements only, and can be repeated. An
/// implementation runs it on a thread that may block, not on the cooperative thread pool.
public protocol SQLDatabase: Sendable {
    /// The engine's SQL.
    var dialect: SQLDialect { get }
    /// Seconds to add to this machine's clock to get the database's time; 0 for a database in this
    /// process.
    var clockOffset: Double { get }

    /// Runs statements that change nothing, in one transaction.
    ///
    /// - Throws: ``SQLFailure``, or the body's error.
    func read<R: Sendable>(_ body: @escaping @Sendable (any SQLConnection) throws -> R) async throws
        -> R

    /// Runs statements in one transaction, which takes effect completely or, if the body throws,
    /// not at all. The body can be called again after a conflict or a lost connection, if the
    /// transaction had no effect.
    ///
    /// - Throws: ``SQLFailure``, or the body's error.
    @discardableResult
    func write<R: Sendable>(_ body: @escaping @Sendable (any SQLConnection) throws -> R)
        async throws -> R

    /// Runs a transaction that changes tables, as ``write(_:)`` without a limit for the time of a
    /// statement. By default, this is ``write(_:)``.
    func changeTables<R: Sendable>(
        _ body: @escaping @Sendable (any SQLConnection) throws -> R
    ) async throws -> R
}

/// The statements of one transaction. Valid within the transaction's body only.
public protocol SQLConnection {
    /// The engine's SQL.
    var dialect: SQLDialect { get }
    /// The database's time when the transaction began, in seconds since 1970; nil for a database in
    /// this process.
    var now: Double? { get }

    /// Runs one statement.
    ///
    /// - Returns: The number of rows that the statement inserted, changed or deleted.
    @discardableResult
    func execute(_ statement: SQLText) throws -> Int

    /// Runs statements one after another, up to the first failure. An implementation can send them
    /// to the database together; by default it sends each after the result of the one before.
    func execute(_ statements: [SQLText]) throws

    /// Runs one statement and returns its rows.
    func rows(_ statement: SQLText) throws -> [SQLRow]

    /// Runs constant statements without parameters, separated by semicolons.
    func script(_ statements: String) throws
}

/// The SQL of an engine.
public enum SQLDialect: Hashable, Sendable {
    /// SQLite 3.35 or newer. Write transactions exclude each other.
    case sqlite
    /// PostgreSQL 13 or newer, with transactions at the level `READ COMMITTED`.
    case postgreSQL
}

/// A failure of the database itself.
public struct SQLFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of a failure.
    public enum Code: Hashable, Sendable {
        /// There is no connection to the database. The transaction had no effect.
        case unavailable
        /// The database refuses connections until an operator corrects the role, the password, the
        /// certificate or the name of the database. The transaction had no effect.
        case refused
        /// All connections were in use for too long. The transaction had no effect.
        case poolExhausted
        /// A statement took too long. The transaction had no effect.
        case timeout
        /// The connection was lost while the database committed. The transaction took effect
        /// completely or not at all.
        case outcomeUnknown
        /// Transactions prevented each other from committing. The transaction had no effect.
        case conflict
        /// A text contains a character that the database does not store: NUL.
        case invalidText
        /// A constraint, with SQLSTATE class 23, or any other error that the database reports.
        case statement
    }

    /// The kind.
    public let code: Code
    /// The five characters of the standard's SQLSTATE, if the database reported one.
    public let sqlState: String?
    /// The database's message. Does not contain the values of statements.
    public let message: String

    /// Creates a failure.
    public init(_ code: Code, sqlState: String? = nil, _ message: String) {
        self.code = code
        self.sqlState = sqlState
        self.message = message
    }

    /// Whether the same request can succeed later.
    public var isTemporary: Bool {
        switch code {
        case .unavailable, .refused, .poolExhausted, .timeout, .outcomeUnknown, .conflict: true
        case .invalidText, .statement: false
        }
    }

    public var description: String { message + (sqlState.map { " (SQLSTATE \($0))" } ?? "") }
}

extension SQLDatabase {
    /// Runs the transaction with the limits of ``write(_:)``.
    public func changeTables<R: Sendable>(
        _ body: @escaping @Sendable (any SQLConnection) throws -> R
    ) async throws -> R {
        try await write(body)
    }

    /// The time of the database's machine.
    package var clock: WallClock { WallClock(offset: { clockOffset }) }

    /// Runs one statement, to learn whether the database answers.
    package func check() async throws { _ = try await read { try $0.rows("SELECT 1") } }
}

extension SQLConnection {
    /// Runs each statement after the result of the one before.
    public func execute(_ statements: [SQLText]) throws {
        for statement in statements { try execute(statement) }
    }

    /// Returns the first row.
    package func row(_ statement: SQLText) throws -> SQLRow? { try rows(statement).first }

    /// Waits until no other transaction has locked this name, and locks it until the end of the
    /// transaction. In SQLite, write transactions exclude each other anyway.
    package func lock(_ name: String) throws {
        if let statement = locking(name) { try execute(statement) }
    }

    /// The statement of ``lock(_:)``; nil if it needs none.
    package func locking(_ name: String) -> SQLText? {
        switch dialect {
        case .sqlite: nil
        case .postgreSQL: "SELECT 1 FROM pg_advisory_xact_lock(hashtextextended(\(name), 0))"
        }
    }

    /// The statement that deletes expired rows: at most `limit`, and in PostgreSQL none that another
    /// transaction uses, so that cleaning neither waits nor takes longer with more rows.
    ///
    /// - Parameters:
    ///   - key: The primary key, one column.
    ///   - column: The column with the time of expiry. It has an index.
    ///   - condition: Only the expired rows that meet it.
    package func deletionOfExpired(
        from table: StaticString, key: StaticString, by column: StaticString = "expires_at",
        at now: Double, where condition: SQLText = "TRUE", limit: Int = 100
    ) -> SQLText {
        let (name, key) = (SQLText(constant: table), SQLText(constant: key))
        let column = SQLText(constant: column)
        // The order makes PostgreSQL use the index. Without it, a prepared statement reads the
        // whole table, because its plan assumes that a third of all rows are expired.
        let expired: SQLText =
            """
            FROM \(name) WHERE \(column) <= \(now) AND \(condition) ORDER BY \(column) LIMIT \(limit)
            """
        return switch dialect {
        case .sqlite: "DELETE FROM \(name) WHERE \(key) IN (SELECT \(key) \(expired))"
        case .postgreSQL:
            """
            DELETE FROM \(name) WHERE ctid = ANY (ARRAY(
                SELECT ctid \(expired) FOR UPDATE SKIP LOCKED))
            """
        }
    }
}
