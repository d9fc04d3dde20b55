import Foundation
import HTTPTypes
import LatchkeyOAuth
import LatchkeySimulators

/// Identity servers on one database, with HAProxy in front of them if it is installed.
struct FleetServers: Sendable {
    static let clientID = "app"

    /// The issuer of the tokens, the same for all servers.
    let issuer: String
    /// The addresses to send requests to, in turn: HAProxy's, or without it those of the servers.
    let authorities: [String]
    /// The processes of the servers.
    let processes: [Int32]

    static let isBehindProxy = proxy != nil

    private static let proxy: String? = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    /// The bytes of the signing key file. Servers that start later use the same databases.
    private static let secret = Data((0..<32).map { _ in UInt8.random(in: .min ... .max) })

    /// Starts servers, runs `body`, and stops the servers.
    static func withRunning<R>(
        _ count: Int, database: String, _ body: (FleetServers) async throws -> R
    ) async throws -> R {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let front = try FreePort.find()
        let issuer = "http://127.0.0.1:\(front)"
        let (configuration, key) = (
            directory.path(of: "configuration.json"), directory.path(of: "signing-key")
        )
        try Data(Self.configuration(issuer).utf8).write(to: URL(filePath: configuration))
        guard
            FileManager.default.createFile(
                atPath: key, contents: Self.secret, attributes: [.posixPermissions: 0o600])
        else { throw Failure(reason: "the signing key file cannot be written") }
        let options = [
            "serve", "--config", configuration, "--database", database, "--signing-key-file", key,
            "--log-level",
            "critical",
        ]
        let ports = try (0..<count).map { _ in try FreePort.find() }
        return try await start(ports[...], options, []) { processes in
            guard let proxy else {
                return try await body(
                    FleetServers(
                        issuer: issuer, authorities: ports.map { "127.0.0.1:\($0)" },
                        processes: processes))
            }
            let file = directory.path(of: "haproxy.cfg")
            try Data(proxyConfiguration(front, ports).utf8).write(to: URL(filePath: file))
            return try await Program(name: proxy).serving(
                ["-q", "-db", "-f", file], printsLine: false
            ) { _, _ in
                let servers = FleetServers(
                    issuer: issuer, authorities: ["127.0.0.1:\(front)"], processes: processes)
                try await servers.waitUntilReady()
                return try await body(servers)
            }
        }
    }

    /// Starts a server for each port, one after the other.
    private static func start<R>(
        _ ports: ArraySlice<Int>, _ options: [String], _ processes: [Int32],
        _ body: ([Int32]) async throws -> R
    ) async throws -> R {
        guard let port = ports.first else { return try await body(processes) }
        let server = Program.built("latchkey-identity")
        return try await server.serving(options + ["--port", "\(port)"], printsLine: true) {
            process, line in
            guard !line.isEmpty else { throw Failure(reason: "latchkey-identity did not start") }
            return try await start(ports.dropFirst(), options, processes + [process], body)
        }
    }

    private func waitUntilReady() async throws {
        let transport = CurlTransport()
        for _ in 0..<600 {
            let request = HTTPRequest(
                method: .get, scheme: "http", authority: authorities[0],
                path: "/.well-known/openid-configuration")
            if let (response, _) = try? await transport.send(request, body: []),
                response.status.code == 200
            {
                return
            }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw Failure(reason: "HAProxy did not start")
    }

    /// The default limits. The measurement acts as a proxy in front of the servers or of HAProxy,
    /// and reports the addresses of its clients, so that the limits per address apply to each
    /// client.
    private static func configuration(_ issuer: String) -> String {
        """
        {"public_origin": "\(issuer)", "trusted_proxies": ["127.0.0.1"],
         "clients": [{"client_id": "\(clientID)", "redirect_uris": ["http://127.0.0.1/callback"]}]}
        """
    }

    /// As in `Examples/fleet/haproxy.cfg`, but without health checks, and behind another proxy.
    private static func proxyConfiguration(_ port: Int, _ servers: [Int]) -> String {
        """
        global
            maxconn 2000
        defaults
            mode http
            timeout connect 2s
            timeout client 30s
            timeout server 30s
        frontend public
            bind 127.0.0.1:\(port)
            option forwardfor if-none
            default_backend servers
        backend servers
            balance roundrobin

        """ + servers.map { "    server s\($0) 127.0.0.1:\($0)\n" }.joined()
    }
}
