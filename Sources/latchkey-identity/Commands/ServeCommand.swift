import ArgumentParser
import FoundationEssentials
import Glibc
import Hummingbird
import LatchkeyLogging
import Logging
import ServiceLifecycle
import UnixSignals

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Serve until SIGTERM.",
        discussion: """
            Prints one line of JSON on stdout when it is ready: {"endpoint":…,"clientID":…,"users":[…]}. \
            Logs go to stderr, or to the journal where systemd starts it.

            Behind a proxy, the configuration gives public_origin, the origin under which clients reach it, and \
            trusted_proxies, the IP addresses of the proxies whose X-Forwarded-For is believed (its last entry). \
            Without the latter all clients share the rate limits of one address.
            """)

    @Flag(help: "Serve a demonstration client and two users whose passwords are printed.")
    var demo = false

    @Option(help: "The configuration, a JSON file.")
    var config: String?

    @Option(help: "The address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "The port to listen on; 0 for a free one. 8080 without --demo, a free one with it.")
    var port: Int?

    @Option(help: "The SQLite file. Without it everything is in memory and gone when the server stops.")
    var database: String?

    @Option(help: "The lowest level that is logged: trace, debug, info, notice, warning, error, critical.")
    var logLevel = "notice"

    func validate() throws {
        guard demo || config != nil else { throw ValidationError("Give --config FILE, or --demo.") }
        guard (0...65_535).contains(port ?? 0) else { throw ValidationError("A port is a number from 0 to 65535.") }
        guard Logger.Level(rawValue: logLevel) != nil else {
            throw ValidationError("There is no log level \(logLevel).")
        }
        guard !demo || host == "localhost" || host == "::1" || host.hasPrefix("127.") else {
            throw ValidationError("--demo has passwords that everybody knows and listens on loopback only.")
        }
    }

    func run() async throws {
        let logger = Self.logger(Logger.Level(rawValue: logLevel) ?? .notice)
        do {
            try await serve(logger: logger)
        } catch {
            logger.critical("Could not serve: \(error).")
            throw ExitCode(1)
        }
    }

    private func serve(logger: Logger) async throws {
        let configuration = try config.map { try ServerConfiguration(json: Self.read($0)) } ?? Demo.configuration
        let services = try await IdentityServices(
            configuration, database: IdentityDatabase.open(path: database),
            hasher: PasswordHasher(cost: demo ? .demonstration : .standard))
        if demo { try await Demo.addUsers(to: services.users) }

        try OpenFiles.allow(connections: configuration.connections.total)
        let ready = Ready(clientID: configuration.clients.first?.id ?? "", users: demo ? Demo.accounts : nil)
        let application = IdentityServer.application(
            services, host: host, port: port ?? (demo ? 0 : 8_080), logger: logger
        ) { origin in
            Self.print(ready.line(endpoint: origin), to: STDOUT_FILENO)
        }
        var group = ServiceGroupConfiguration(
            services: [application], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        group.maximumGracefulShutdownDuration = .seconds(5)
        try await ServiceGroup(configuration: group).run()
    }

    /// What is printed when the server is ready.
    private struct Ready: Sendable {
        let clientID: String
        let users: [Demo.Account]?

        func line(endpoint: String) -> String {
            struct Line: Encodable {
                let endpoint: String
                let clientID: String
                let users: [Demo.Account]?
            }
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            guard let json = try? encoder.encode(Line(endpoint: endpoint, clientID: clientID, users: users)) else {
                return "\n"
            }
            return String(decoding: json, as: UTF8.self) + "\n"
        }
    }

    private static func logger(_ level: Logger.Level) -> Logger {
        let environment = ProcessInfo.processInfo.environment
        var logger = Logger(label: "latchkey-identity") { ServiceLog.handler(label: $0, environment: environment) }
        logger.logLevel = level
        return logger
    }

    private static func read(_ path: String) throws -> Data {
        do {
            return try Data(contentsOf: URL(filePath: path))
        } catch {
            throw ConfigurationError("can't read \(path)")
        }
    }

    /// Writes at once: a reader at the other end of a pipe is waiting.
    private static func print(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let written = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            guard written > 0 else { return }
            bytes = bytes.dropFirst(written)
        }
    }
}
