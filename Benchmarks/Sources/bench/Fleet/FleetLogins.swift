import Crypto
import Foundation
import LatchkeySimulators

/// Measures logins of 50 concurrent clients at one to three `latchkey-identity` processes on one
/// PostgreSQL database, and at one on SQLite, with few and with many devices.
struct FleetLogins {
    let sizes: (few: Int, many: Int)
    /// The number of logins in a measurement.
    let logins: Int

    /// A database with devices.
    private struct Store {
        let devices: FleetDevices
        /// The value of `--database`.
        let address: String
        /// The devices that log in.
        let kids: [String]
        /// nil for SQLite.
        let database: FleetDatabase?

        var name: String { database == nil ? "SQLite" : "PostgreSQL" }
    }

    @concurrent func run() async throws -> Findings {
        let key = P256.Signing.PrivateKey()
        let (few, many) = (
            FleetDevices(count: sizes.few, key: key), FleetDevices(count: sizes.many, key: key)
        )
        var findings: Findings = try await FleetDatabase.withRunning { database in
            let stores = (few: try store(few, in: database), many: try store(many, in: database))
            var findings = Findings()
            for servers in 1...3 { findings += try await measure(stores, servers: servers) }
            findings.figures.append(try Self.space(of: many, in: database))
            return findings
        }
        let directory = try TemporaryDirectory()
        let stores = (few: try store(few, in: directory), many: try store(many, in: directory))
        findings += try await measure(stores, servers: 1)
        withExtendedLifetime(directory) {}
        return Self.joined(findings, note)
    }

    private func store(_ devices: FleetDevices, in database: FleetDatabase) throws -> Store {
        let address = try database.create(devices)
        let kids = try database.sql([FleetDevices.sample(logins * 4)], of: devices)
        return Store(
            devices: devices, address: address, kids: try Self.lines(kids), database: database)
    }

    private func store(_ devices: FleetDevices, in directory: TemporaryDirectory) throws -> Store {
        let file = directory.path(of: "fleet\(devices.count).sqlite")
        try Program.built("latchkey-identity").run(["migrate", "--database", file])
        let sqlite = Program(name: "sqlite3")
        let end = ["ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"]
        try sqlite.run(
            [file, ".dbconfig enable_trigger off", "PRAGMA cache_size = -1000000"]
                + devices.insertion(.sqlite) + end)
        let kids = String(
            decoding: try sqlite.run([file, FleetDevices.sample(logins * 4)]), as: UTF8.self)
        return Store(devices: devices, address: file, kids: try Self.lines(kids), database: nil)
    }

    /// Logs in with few and with many devices in turn, so that load affects both equally.
    private func measure(_ stores: (few: Store, many: Store), servers count: Int) async throws
        -> Findings
    {
        let name = "\(stores.few.name), \(count)"
        let runs: [FleetRun] = try await FleetServers.withRunning(
            count, database: stores.few.address
        ) { few in
            try await FleetServers.withRunning(count, database: stores.many.address) { many in
                var runs = [(stores.few, few), (stores.many, many)].map { store, servers in
                    FleetRun(name, store.devices, kids: store.kids, on: servers, store.database)
                }
                for run in runs { try await run.warmUp() }
                for _ in 0..<Self.rounds {
                    for index in runs.indices {
                        try await runs[index].measure(logins / Self.rounds)
                    }
                }
                return runs
            }
        }
        return Findings(
            goals: Self.goals(name, few: runs[0], many: runs[1]),
            figures: [
                Figures(title: Self.title, columns: FleetRun.columns, rows: runs.map(\.cells))
            ])
    }

    private static func goals(_ name: String, few: FleetRun, many: FleetRun) -> [Goal] {
        let ratio = many.cost / few.cost
        let work = "login with \(many.devices.count) devices, \(name)"
        return [
            Goal(
                work: "\(work): processor time", value: "\(Decimals.format(many.cost, 2)) ms",
                floor: "\(Decimals.format(few.cost, 2)) ms with \(few.devices.count)",
                ratio: Decimals.format(ratio, 2), goal: "≤ \(Decimals.format(limit, 2))",
                isMet: ratio <= limit),
            .ratio(
                "\(work): median", many.samples, over: few.samples,
                named: "with \(few.devices.count)", atMost: limit),
        ]
    }

    /// Bytes of the rows and of the indexes for each device.
    private static func space(of devices: FleetDevices, in database: FleetDatabase) throws
        -> Figures
    {
        var figures = Figures(
            title: "PostgreSQL, bytes per device",
            columns: ["table", "rows", "indexes", "together"],
            note: "\(devices.count) devices. Each belongs to a different user and has one session.")
        for table in FleetDevices.tables {
            let name = #"'public."\#(table)"'"#
            let sizes = try database.sql(
                [
                    "SELECT pg_table_size(\(name)), pg_indexes_size(\(name)), pg_total_relation_size(\(name))"
                ],
                of: devices
            ).split(separator: "|").compactMap { Double($0) }
            figures.rows.append(
                [table] + sizes.map { Decimals.format($0 / Double(devices.count), 0) })
        }
        return figures
    }

    /// The rows of all measurements in one table.
    private static func joined(_ findings: Findings, _ note: String) -> Findings {
        var joined = findings
        joined.figures = findings.figures.filter { $0.title != title }
        let rows = findings.figures.filter { $0.title == title }.flatMap(\.rows)
        joined.figures.insert(
            Figures(title: title, columns: FleetRun.columns, rows: rows, note: note), at: 0)
        return joined
    }

    private var note: String {
        let date = Date().formatted(.iso8601.year().month().day())
        let proxy = FleetServers.isBehindProxy ? "Requests pass HAProxy." : "Without HAProxy."
        return """
            \(date), \(logins) logins by \(FleetClients.count) clients at once, on the same machine. A login is a challenge, a \
            signature by the client and an authentication. The processor time is that of the servers and of PostgreSQL. \(proxy)
            """
    }

    private static func lines(_ text: String) throws -> [String] {
        let lines = text.split(separator: "\n").map(String.init)
        guard !lines.isEmpty else { throw Failure(reason: "the database has no devices") }
        return lines
    }

    private static let title = "logins at a fleet of identity servers"
    private static let rounds = 2
    /// The largest permitted growth of the cost of a login.
    private static let limit = 1.2
}
