internal import FoundationEssentials
internal import Latchkey
public import LatchkeyRelyingParty
internal import Synchronization

/// A PostgreSQL database with a pool of connections, through libpq.
///
/// Each connection has a thread. A transaction's body runs on it, so that the cooperative thread
/// pool is not blocked. To use another client, implement `SQLDatabase`.
public final class PostgreSQLDatabase: SQLDatabase {
    /// The number of times that a transaction without effect is repeated.
    private static let maximumAttempts = 4

    private let pool: PostgreSQLPool
    private let offset = Mutex(0.0)

    /// Checks the address. Connects at the first transaction.
    ///
    /// - Throws: ``PostgreSQLConfigurationError``
    public init(_ configuration: PostgreSQLConfiguration) throws {
        pool = PostgreSQLPool(try ConnectionParameters(configuration), configuration)
    }

    public var dialect: SQLDialect { .postgreSQL }

    /// Measured at the beginning of the last transaction.
    public var clockOffset: Double { offset.withLock { $0 } }

    public func read<R: Sendable>(_ body: @escaping @Sendable (any SQLConnection) throws -> R)
        async throws -> R
    {
        try await transaction(.read, body)
    }

    @discardableResult
    public func write<R: Sendable>(_ body: @escaping @Sendable (any SQLConnection) throws -> R)
        async throws -> R
    {
        try await transaction(.write, body)
    }

    public func changeTables<R: Sendable>(
        _ body: @escaping @Sendable (any SQLConnection) throws -> R
    ) async throws -> R {
        try await transaction(.tables, body)
    }

    /// Closes the connections that are not in use.
    public func close() { pool.discardIdle() }

    /// Repeats the transaction only if it had no effect: PostgreSQL undid it, or the connection was
    /// lost before `COMMIT`.
    private func transaction<R: Sendable>(
        _ kind: PostgreSQLConnection.Transaction,
        _ body: @escaping @Sendable (any SQLConnection) throws -> R
    ) async throws -> R {
        for attempt in 1... {
            let connection = try await pool.take()
            do {
                let (value, now) = try await connection.run(kind, body)
                pool.give(back: connection, isUsable: true)
                offset.withLock { $0 = now }
                return value
            } catch let error as SQLFailure {
                pool.give(back: connection, isUsable: await connection.isUsable)
                guard error.code == .unavailable || error.code == .conflict,
                    attempt < Self.maximumAttempts
                else {
                    try Task.checkCancellation()
                    throw error
                }
                if error.code == .unavailable { pool.discardIdle() }
            } catch {
                pool.give(back: connection, isUsable: await connection.isUsable)
                throw error
            }
        }
        throw SQLFailure(.conflict, "the transaction could not be completed")
    }
}

/// An address that cannot be used.
public struct PostgreSQLConfigurationError: Error, CustomStringConvertible {
    /// The cause and the next step. Does not contain the address.
    public let description: String

    init(_ description: String) { self.description = description }
}
