/// Logins at servers of one database, and their cost.
struct FleetRun {
    /// The storage and the number of servers.
    let name: String
    let devices: FleetDevices
    private let clients: FleetClients
    /// Processes whose processor time counts: the servers and PostgreSQL's first process.
    private let processes: [Int32]
    /// nil for SQLite.
    private let database: FleetDatabase?

    private(set) var samples = Samples()
    private var elapsed = Duration.zero
    private var processor = 0.0
    private var used = Counters()

    /// Numbers of PostgreSQL that only grow.
    private struct Counters {
        var statements = 0.0
        var transactions = 0.0
        var logBytes = 0.0
    }

    init(
        _ name: String, _ devices: FleetDevices, kids: [String], on servers: FleetServers,
        _ database: FleetDatabase?
    ) {
        self.name = name
        self.devices = devices
        self.database = database
        clients = FleetClients(servers, devices, kids: kids)
        processes = servers.processes + (database.map { [$0.process] } ?? [])
    }

    /// Logs in without measuring, often enough for each connection to plan its statements for all
    /// values.
    func warmUp() async throws { try await clients.logIn(100 * processes.count) }

    mutating func measure(_ logins: Int) async throws {
        let (counters, time) = (try read(), try ProcessorTime.seconds(of: processes))
        let start = ContinuousClock.now
        samples.add(try await clients.logIn(logins))
        elapsed += ContinuousClock.now - start
        processor += try ProcessorTime.seconds(of: processes) - time
        let now = try read()
        used.statements += now.statements - counters.statements
        used.transactions += now.transactions - counters.transactions
        used.logBytes += now.logBytes - counters.logBytes
    }

    private func read() throws -> Counters {
        guard let database else { return Counters() }
        let numbers = try database.sql(
            [
                """
                SELECT sum(calls), sum(calls) FILTER (WHERE query = 'COMMIT'),
                    pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') FROM pg_stat_statements
                WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
                """
            ], of: devices
        ).split(separator: "|").compactMap { Double($0) }
        guard numbers.count == 3 else {
            throw Failure(reason: "PostgreSQL did not report its statistics")
        }
        return Counters(statements: numbers[0], transactions: numbers[1], logBytes: numbers[2])
    }

    /// Milliseconds of processor time of a login.
    var cost: Double { processor * 1000 / Double(samples.durations.count) }

    var cells: [String] {
        let count = Double(samples.durations.count)
        func each(_ number: Double, _ places: Int) -> String {
            database == nil ? "–" : Decimals.format(number / count, places)
        }
        return [
            name, "\(devices.count)", Decimals.format(count * 1000 / elapsed.milliseconds, 0),
            samples.median.text,
            samples.p99.text, "\(Decimals.format(cost, 2)) ms", each(used.statements, 1),
            each(used.transactions, 1),
            each(used.logBytes, 0),
        ]
    }

    static let columns = [
        "storage and servers", "devices", "logins/s", "median", "99 %", "processor time",
        "statements", "transactions",
        "WAL bytes",
    ]
}
