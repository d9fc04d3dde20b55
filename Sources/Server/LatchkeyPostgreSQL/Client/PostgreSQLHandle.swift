internal import CPostgreSQL
internal import FoundationEssentials
internal import Glibc
internal import LatchkeyPlatform
internal import LatchkeyRelyingParty

/// libpq's connection. Used on its connection's thread only, which waits for the socket.
final class PostgreSQLHandle {
    /// A statement's rows, or the number of rows that it changed.
    struct Answer {
        var rows: [SQLRow] = []
        var changes = 0
        /// The command that the server completed.
        var command = ""
    }

    /// The maximum number of prepared statements. The repositories have fewer.
    private static let maximumPrepared = 500
    /// The additional time after which the server does not answer, although it should have ended
    /// the statement.
    private static let grace: Duration = .seconds(5)

    private let connection: OpaquePointer
    private let wakeUp: WakeUp
    private let statementTimeout: Duration
    /// Whether statements of the current transaction may take a day.
    var isUnlimited = false
    /// The names of prepared statements by text and types.
    private var prepared: [String: String] = [:]
    private var nextName = 0
    /// Whether the server no longer accepts a prepared statement.
    private var isStale = false
    /// Whether the current transaction sent `COMMIT`, so that its effect is not known without an
    /// answer.
    private var isCommitting = false
    private var wasCancelled = false

    /// Connects to the first host that answers and accepts the session.
    ///
    /// libpq does not try the next host if one accepts the TCP connection and then does not answer.
    ///
    /// - Throws: `SQLFailure` with the cause of each host, and with code `refused` if all refused.
    static func open(
        _ parameters: ConnectionParameters, wakeUp: WakeUp,
        until deadline: ContinuousClock.Instant
    ) throws -> sending PostgreSQLHandle {
        var failures: [SQLFailure] = []
        for host in parameters.hosts.indices {
            do {
                return try PostgreSQLHandle(parameters, host: host, wakeUp: wakeUp, until: deadline)
            } catch let error as SQLFailure {
                failures.append(error)
            }
        }
        let causes = failures.map(\.message).joined(separator: "; ")
        throw SQLFailure(
            failures.allSatisfy { $0.code == .refused } ? .refused : .unavailable,
            sqlState: failures.last?.sqlState, "the connection to the database failed: \(causes)")
    }

    private init(
        _ parameters: ConnectionParameters, host: Int, wakeUp: WakeUp,
        until deadline: ContinuousClock.Instant
    ) throws {
        self.wakeUp = wakeUp
        statementTimeout = parameters.statementTimeout
        let connecting = parameters.withPointers(host: host) { PQconnectStartParams($0, $1, 0) }
        guard let connecting else {
            throw SQLFailure(.unavailable, "there is not enough memory to connect")
        }
        connection = connecting
        // Puts the SQLSTATE into the messages of refused connections, and the source line.
        _ = PQsetErrorVerbosity(connection, PQERRORS_VERBOSE)
        try connect(parameters, until: deadline)
        _ = PQsetErrorVerbosity(connection, PQERRORS_DEFAULT)
        // Notices can contain values.
        _ = PQsetNoticeProcessor(connection, { _, _ in }, nil)
        PQsetnonblocking(connection, 1)
    }

    deinit { PQfinish(connection) }

    /// Connects to the first address of the host that answers.
    ///
    /// `PQconnectPoll` ignores `connect_timeout`. Without a limit for each address, a machine
    /// without power or a server that hangs would use up the time for the others. A single host can
    /// use all the time after TCP connected: it can be busy.
    private func connect(
        _ parameters: ConnectionParameters, until deadline: ContinuousClock.Instant
    ) throws {
        guard PQstatus(connection) != CONNECTION_BAD else {
            throw SQLFailure(refusedAt: connection)
        }
        var next = PGRES_POLLING_WRITING
        var addressEnd = ContinuousClock.now + parameters.addressTimeout
        while next != PGRES_POLLING_OK {
            guard next != PGRES_POLLING_FAILED else { throw SQLFailure(refusedAt: connection) }
            let events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT
            let isStarted = PQstatus(connection) == CONNECTION_STARTED
            if isStarted { addressEnd = ContinuousClock.now + parameters.addressTimeout }
            let isLimited = isStarted || parameters.hosts.count > 1
            if !isReady(for: events, until: isLimited ? min(deadline, addressEnd) : deadline) {
                guard isStarted else {
                    let host = PQhost(connection).map { String(cString: $0) } ?? "the server"
                    throw SQLFailure(.unavailable, "\(host) does not answer within the time limit")
                }
                // libpq continues with the next address.
                shutdown(PQsocket(connection), Int32(SHUT_RDWR))
            }
            next = PQconnectPoll(connection)
        }
    }

    /// Waits for the socket, also if it failed, which libpq then reports.
    ///
    /// - Returns: false at the deadline.
    private func isReady(for events: Int32, until deadline: ContinuousClock.Instant) -> Bool {
        guard deadline > .now else { return false }
        return (try? Poll.wait(for: PQsocket(connection), events, until: deadline)) ?? true
    }

    /// Whether the connection is open and outside a transaction.
    var isIdle: Bool {
        PQstatus(connection) == CONNECTION_OK && PQtransactionStatus(connection) == PQTRANS_IDLE
    }

    /// Discards a cancellation that arrived after the last transaction.
    func forgetCancellation() {
        wakeUp.clear()
        wasCancelled = false
        isCommitting = false
    }

    /// Begins a transaction.
    ///
    /// - Returns: The database's time.
    func begin(_ statements: String) throws -> Double {
        guard let row = try simple(statements).rows.first else { throw lost() }
        return try row.real("now")
    }

    /// - Throws: `SQLFailure` with code `outcomeUnknown` if the connection is lost before the
    ///   answer.
    func commit() throws {
        isCommitting = true
        defer { isCommitting = false }
        // COMMIT of a transaction in which a statement failed succeeds, and is a ROLLBACK.
        guard try simple("COMMIT").command == "COMMIT" else {
            throw SQLFailure(
                .statement, "a statement of the transaction failed, so it had no effect")
        }
    }

    /// Ends the transaction without effect; if this fails, the connection is no longer idle, and
    /// the pool closes it.
    func rollBack() {
        wasCancelled = false
        guard PQstatus(connection) == CONNECTION_OK else { return }
        _ = try? simple("ROLLBACK")
        if isStale {
            (isStale, prepared) = (false, [:])
            _ = try? simple("DEALLOCATE ALL")
        }
    }

    /// Runs constant statements without parameters.
    func simple(_ statements: String) throws -> Answer {
        try send { PQsendQuery(connection, statements) }
        return try answer()
    }

    /// Runs one statement with parameters, prepared at its first use.
    func query(_ statement: SQLText) throws -> Answer {
        let statement = Prepared(statement)
        if prepared[statement.key] == nil, let name = newName() {
            try sendPreparation(of: statement, as: name)
            _ = try answer()
            prepared[statement.key] = name
        }
        try sendExecution(of: statement, as: prepared[statement.key])
        return try answer()
    }

    /// Runs statements with parameters one after another, in one exchange with the server (libpq's
    /// pipeline mode). After a failure, the server skips the rest.
    func pipeline(_ statements: [SQLText]) throws {
        guard statements.count > 1 else { return try statements.forEach { _ = try query($0) } }
        // In pipeline mode, ROLLBACK could not be sent.
        guard !wasCancelled else { throw CancellationError() }
        guard PQenterPipelineMode(connection) == 1 else { throw lost() }
        var new: [String: String] = [:]
        // The key of each prepared statement; nil for an execution.
        var steps: [String?] = []
        for statement in statements.map(Prepared.init) {
            if prepared[statement.key] == nil, new[statement.key] == nil,
                let name = newName(besides: new.count)
            {
                try sendPreparation(of: statement, as: name)
                new[statement.key] = name
                steps.append(statement.key)
            }
            try sendExecution(of: statement, as: prepared[statement.key] ?? new[statement.key])
            steps.append(nil)
        }
        try send { PQpipelineSync(connection) }
        var failure: SQLFailure?
        for step in steps {
            _ = try results(&failure)
            // The server keeps it, also if a later statement fails.
            if let step, failure == nil { prepared[step] = new[step] }
        }
        // The end of the pipeline. Only then ROLLBACK can be sent.
        _ = try results(&failure)
        guard PQexitPipelineMode(connection) == 1 else { throw lost() }
        try check(failure)
    }

    /// A statement with its values. The key identifies its text and the types of its values.
    private struct Prepared {
        let text: String
        let parameters: Parameters
        let key: String

        init(_ statement: SQLText) {
            let (text, values) = statement.rendered(for: .postgreSQL)
            self.text = text
            parameters = Parameters(values)
            key = parameters.types.map(String.init).joined(separator: ",") + " " + text
        }
    }

    /// A name for a prepared statement; nil if there are too many.
    private func newName(besides others: Int = 0) -> String? {
        guard prepared.count + others < Self.maximumPrepared else { return nil }
        defer { nextName += 1 }
        return "s\(nextName)"
    }

    private func sendPreparation(of statement: Prepared, as name: String) throws {
        let types = statement.parameters.types
        try send { PQsendPrepare(connection, name, statement.text, Int32(types.count), types) }
    }

    private func sendExecution(of statement: Prepared, as name: String?) throws {
        let parameters = statement.parameters
        try send {
            parameters.withPointers { pointers, lengths, formats in
                if let name {
                    PQsendQueryPrepared(
                        connection, name, parameters.count, pointers, lengths, formats, 1)
                } else {
                    PQsendQueryParams(
                        connection, statement.text, parameters.count, parameters.types, pointers,
                        lengths, formats, 1)
                }
            }
        }
    }

    private func send(_ body: () -> Int32) throws {
        guard !wasCancelled else { throw CancellationError() }
        guard body() == 1 else { throw lost() }
    }

    /// Waits for all results of the sent statements.
    private func answer() throws -> Answer {
        var failure: SQLFailure?
        let answer = try results(&failure)
        try check(failure)
        return answer
    }

    /// Waits for all results of the sent statements, or in a pipeline for those of the next
    /// statement.
    ///
    /// - Parameter failure: Set to the first failure.
    private func results(_ failure: inout SQLFailure?) throws -> Answer {
        let limit = isUnlimited ? .seconds(86_400) : statementTimeout + Self.grace
        let deadline = ContinuousClock.now + limit
        var answer = Answer()
        while true {
            while PQflush(connection) == 1 { try wait(for: POLLIN | POLLOUT, until: deadline) }
            while PQisBusy(connection) == 1 { try wait(for: POLLIN, until: deadline) }
            guard let result = PQgetResult(connection) else { return answer }
            defer { PQclear(result) }
            answer.command = PQcmdStatus(result).map { String(cString: $0) } ?? ""
            switch PQresultStatus(result) {
            case PGRES_COMMAND_OK:
                answer.changes = PQcmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0
            case PGRES_TUPLES_OK:
                answer.changes = PQcmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0
                answer.rows = try RowReader(result).rows()
            case PGRES_PIPELINE_SYNC: break
            default: failure = failure ?? SQLFailure(result)
            }
        }
    }

    private func check(_ failure: SQLFailure?) throws {
        if wasCancelled, failure != nil || PQstatus(connection) == CONNECTION_BAD {
            throw CancellationError()
        }
        if PQstatus(connection) == CONNECTION_BAD { throw lost() }
        guard let failure else { return }
        isStale = isStale || SQLFailure.staleStates.contains(failure.sqlState ?? "")
        throw failure
    }

    /// Waits for the socket. A cancellation cancels the statement, whose answer is then an error.
    private func wait(for events: Int32, until deadline: ContinuousClock.Instant) throws {
        while deadline > .now {
            // COMMIT is not cancelled: its effect would be unknown.
            let isCancellable = !isCommitting && !wasCancelled
            let ready = try? Poll.wait(
                for: [(PQsocket(connection), events)], until: deadline,
                wakeUp: isCancellable ? wakeUp : nil)
            guard let ready else { break }
            if ready.isWoken {
                wasCancelled = true
                cancel()
            }
            guard ready.events[0] != 0 else { continue }
            if PQstatus(connection) == CONNECTION_OK,
                ready.events[0] & (POLLIN | POLLHUP | POLLERR) != 0
            {
                guard PQconsumeInput(connection) == 1 else {
                    if wasCancelled { throw CancellationError() }
                    throw lost()
                }
            }
            return
        }
        throw silent()
    }

    /// Cancels the statement. `PQcancel` waits for another connection, without TLS, so a connection
    /// over TCP is closed instead.
    private func cancel() {
        guard PQhost(connection).map({ $0.pointee == CChar(bitPattern: UInt8(ascii: "/")) }) == true
        else {
            shutdown(PQsocket(connection), Int32(SHUT_RDWR))
            return
        }
        guard PQstatus(connection) == CONNECTION_OK, let cancel = PQgetCancel(connection) else {
            return
        }
        defer { PQfreeCancel(cancel) }
        var message = [CChar](repeating: 0, count: 256)
        _ = PQcancel(cancel, &message, Int32(message.count))
    }

    /// The server does not answer in time: the connection is closed, because a late answer would
    /// belong to another statement.
    private func silent() -> SQLFailure {
        shutdown(PQsocket(connection), Int32(SHUT_RDWR))
        _ = PQconsumeInput(connection)
        return SQLFailure(
            isCommitting ? .outcomeUnknown : .unavailable,
            "the database does not answer within the time limit")
    }

    /// Only the first line of libpq's error is without values of statements.
    private func lost() -> SQLFailure {
        let message = SQLFailure.lines(connection).first ?? "no reason"
        return SQLFailure(
            isCommitting ? .outcomeUnknown : .unavailable,
            "the connection to the database failed: \(message)")
    }
}
