import Crypto
import Foundation
import LatchkeySimulators

/// Measures logins of 50 concurrent clients at `latchkey-identity` on SQLite, with few and with
/// many devices.
struct ServerLogins {
    let sizes: (few: Int, many: Int)
    /// The number of logins in a measurement.
    let logins: Int

    /// The time of logins.
    private struct Cost {
        var logins = 0
        var elapsed = Duration.zero
        var processor = 0.0

        /// Milliseconds of the server's processor time for a login.
        var perLogin: Double { processor * 1000 / Double(logins) }
        var perSecond: Double { Double(logins) * 1000 / elapsed.milliseconds }
    }

    @concurrent func run() async throws -> Findings {
        let directory = try TemporaryDirectory()
        let key = P256.Signing.PrivateKey()
        let (few, many) = (
            ServerDevices(count: sizes.few, key: key), ServerDevices(count: sizes.many, key: key)
        )
        let costs = try await serving(few, directory) { fewClients, fewServer in
            try await serving(many, directory) { manyClients, manyServer in
                var costs = (few: Cost(), many: Cost())
                // Compiles statements and fills caches.
                try await fewClients.logIn(100)
                try await manyClients.logIn(100)
                // In turn, so that load affects both equally.
                for _ in 0..<2 {
                    try await measure(&costs.few, fewClients, fewServer)
                    try await measure(&costs.many, manyClients, manyServer)
                }
                return costs
            }
        }
        var perSecond = Row(
            "logins per second, \(sizes.many) devices", costs.many.perSecond, atMost: 400)
        perSecond.isLeast = true
        return Findings(rows: [
            perSecond,
            Row(
                "processor time of a login ÷ with \(sizes.few) devices",
                costs.many.perLogin / costs.few.perLogin, atMost: 1.1,
                note: "\(costs.many.perLogin.text(2)) ms ÷ \(costs.few.perLogin.text(2)) ms"),
        ])
    }

    private func measure(
        _ cost: inout Cost, _ clients: ServerClients, _ server: Int32
    ) async throws {
        let (start, processor) = (
            ContinuousClock.now, try ProcessorTime.seconds(of: server)
        )
        try await clients.logIn(logins / 2)
        cost.elapsed += ContinuousClock.now - start
        cost.processor += try ProcessorTime.seconds(of: server) - processor
        cost.logins += logins / 2
    }

    /// Creates a database with the devices, starts a server, runs `body`, and stops the server.
    private func serving<R>(
        _ devices: ServerDevices, _ directory: TemporaryDirectory,
        _ body: (ServerClients, Int32) async throws -> R
    ) async throws -> R {
        let database = directory.path(of: "devices\(devices.count).sqlite")
        let kids = try devices.create(in: database, choosing: logins * 2)
        // A port that no program uses.
        let script =
            "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"
        let printed = try Program(name: "python3").run(["-c", script])
        let port = String(decoding: printed.dropLast(), as: UTF8.self)
        let origin = "http://127.0.0.1:\(port)"
        let (configuration, key) = (
            directory.path(of: "\(devices.count).json"), directory.path(of: "\(devices.count).key")
        )
        let settings = """
            {"clients": [{"client_id": "\(ServerDevices.clientID)",
                          "redirect_uris": ["http://127.0.0.1/callback"]}]}
            """
        try Data(settings.utf8).write(to: URL(filePath: configuration))
        let secret = Data((0..<32).map { _ in UInt8.random(in: .min ... .max) })
        guard
            FileManager.default.createFile(
                atPath: key, contents: secret, attributes: [.posixPermissions: 0o600])
        else { throw Failure(reason: "the signing key file cannot be written") }
        let arguments = [
            "serve", "--config", configuration, "--database", database, "--signing-key-file", key,
            "--log-level", "critical", "--port", port,
        ]
        return try await Program.built("latchkey-identity").serving(arguments, printsLine: true) {
            process, line in
            guard !line.isEmpty else { throw Failure(reason: "latchkey-identity did not start") }
            return try await body(ServerClients(origin, devices, kids: kids), process)
        }
    }
}
