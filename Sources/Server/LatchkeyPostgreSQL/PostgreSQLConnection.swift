internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyPlatform
internal import LatchkeyRelyingParty

/// A connection and its thread, which also runs the bodies of its transactions.
actor PostgreSQLConnection {
    enum Transaction {
        case read, write
        /// Creating an index can take longer than a request may take.
        case tables

        /// The time is read in the same exchange. Constant text.
        var begin: String {
            let mode = self == .read ? "READ ONLY" : "READ WRITE"
            let limits = self == .tables ? "SET LOCAL statement_timeout = 0; " : ""
            return "BEGIN ISOLATION LEVEL READ COMMITTED \(mode); \(limits)"
                + "SELECT extract(epoch FROM clock_timestamp())::double precision AS now"
        }
    }

    private nonisolated let thread: BlockingThread
    private nonisolated let wakeUp: WakeUp
    private let handle: PostgreSQLHandle

    nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }

    private init(thread: BlockingThread, wakeUp: WakeUp, handle: sending PostgreSQLHandle) {
        self.thread = thread
        self.wakeUp = wakeUp
        self.handle = handle
    }

    /// Connects.
    ///
    /// - Throws: `SQLFailure` with code `unavailable` or `refused`.
    static func open(
        _ parameters: ConnectionParameters, until deadline: ContinuousClock.Instant
    ) async throws -> PostgreSQLConnection {
        let thread = BlockingThread()
        return try await thread.run {
            let wakeUp = WakeUp()
            guard wakeUp.isOpen else {
                throw SQLFailure(.unavailable, "the process has no more file descriptors")
            }
            let handle = try PostgreSQLHandle.open(parameters, wakeUp: wakeUp, until: deadline)
            return PostgreSQLConnection(thread: thread, wakeUp: wakeUp, handle: handle)
        }
    }

    /// Whether another transaction can use the connection.
    var isUsable: Bool { handle.isIdle }

    /// Runs a transaction. Cancelling the task cancels the current statement.
    ///
    /// - Returns: The body's value, and the seconds by which the database's clock is ahead of this
    ///   machine's.
    /// - Throws: `SQLFailure` with code `unavailable` or `conflict` if the transaction had no
    ///   effect and can be repeated.
    nonisolated func run<R: Sendable>(
        _ kind: Transaction, _ body: @escaping @Sendable (any SQLConnection) throws -> R
    ) async throws -> (R, offset: Double) {
        try await withTaskCancellationHandler {
            try await perform(kind, body)
        } onCancel: {
            wakeUp.wake()
        }
    }

    private func perform<R: Sendable>(
        _ kind: Transaction, _ body: @Sendable (any SQLConnection) throws -> R
    ) throws -> (R, offset: Double) {
        handle.forgetCancellation()
        handle.isUnlimited = kind == .tables
        let began = try handle.begin(kind.begin)
        let offset = began - Date().timeIntervalSince1970
        let value: R
        do {
            value = try body(PostgreSQLTransaction(handle: handle, now: began))
        } catch {
            handle.rollBack()
            throw error
        }
        try handle.commit()
        return (value, offset)
    }
}

/// The statements of a transaction.
struct PostgreSQLTransaction: SQLConnection {
    let handle: PostgreSQLHandle
    let now: Double?

    var dialect: SQLDialect { .postgreSQL }

    func execute(_ statement: SQLText) throws -> Int { try handle.query(statement).changes }

    func execute(_ statements: [SQLText]) throws { try handle.pipeline(statements) }

    func rows(_ statement: SQLText) throws -> [SQLRow] { try handle.query(statement).rows }

    func script(_ statements: String) throws { _ = try handle.simple(statements) }
}
