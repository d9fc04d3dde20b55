import ArgumentParser
import FoundationEssentials
import Glibc
import Hummingbird
import Latchkey
import LatchkeyJOSE
import Logging
import NIOCore
import ServiceLifecycle
import UnixSignals

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Serve until SIGTERM.",
        discussion: """
            Prints one line of JSON on stdout when it is ready: {"endpoint":…,"clientID":…,"users":[…]}. Logs go to stderr.

            Behind a proxy, set the member public_origin of the configuration: the origin under which clients reach the server.
            """)

    @Flag(help: "Serve a demonstration client and two users whose passwords are printed.")
    var demo = false

    @Option(help: "The configuration, a JSON file.")
    var config: String?

    @Option(help: "The address to listen on. Another one than loopback needs public_origin.")
    var host = "127.0.0.1"

    @Option(
        help:
            "The port to listen on; 0 for any free port. Default: 8080, with --demo any free port.")
    var port: Int?

    @Option(
        help: """
            The SQLite file, postgresql://HOST/DATABASE without a password, which PGPASSFILE provides, or :memory:, which is \
            lost when the server stops and the default of --demo. The tables must exist (migrate), except with --demo.
            """)
    var database: String?

    @Option(
        help: """
            The file whose bytes, 32 to 4096, encrypt the server's private keys in the database. Required with PostgreSQL.
            """)
    var signingKeyFile: String?

    @Option(help: "The lowest level to log: trace, debug, info, notice, warning, error, critical.")
    var logLevel = "notice"

    func validate() throws {
        guard demo || config != nil else {
            throw ValidationError(
                "Give a configuration with --config FILE, or use --demo, which registers a client.")
        }
        guard demo || database != nil else {
            throw ValidationError(
                "Name a database with --database: a file, postgresql://HOST/DATABASE or :memory:.")
        }
        guard (0...65_535).contains(port ?? 0) else {
            throw ValidationError("A port is a number from 0 to 65535.")
        }
        guard Logger.Level(rawValue: logLevel) != nil else {
            throw ValidationError("There is no log level \(logLevel).")
        }
        guard !demo || ServerConfiguration.Listener.isLoopback(host) else {
            throw ValidationError("--demo uses public passwords and listens on loopback only.")
        }
    }

    func run() async throws {
        var logger = Logger(label: "latchkey-identity") { ServerLog(label: $0) }
        logger.logLevel = Logger.Level(rawValue: logLevel) ?? .notice
        let port = port ?? (demo ? 0 : 8_080)
        do {
            try await serve(port: port, logger: logger)
        } catch {
            let cause = ConfigurationError(listening: error, host: host, port: port) ?? error
            for line in "\(cause)".split(separator: "\n") {
                logger.critical("Could not start the server: \(line)")
            }
            let isFinal = (cause as? ConfigurationError)?.isTemporary == false
            throw ExitCode(isFinal ? 2 : 1)
        }
    }

    private func serve(port: Int, logger: Logger) async throws {
        let listener = ServerConfiguration.Listener(host: host, port: port)
        let configuration =
            try config.map { try ServerConfiguration(json: Self.read($0), listener: listener) }
            ?? Demo.configuration
        let cipher = try signingKeyFile.map { try SigningKeyCipher(path: $0) }
        let database = try await IdentityDatabase.open(
            database ?? IdentityDatabase.memory, creating: demo)
        let services = try await IdentityServices(
            configuration, database: database,
            hasher: PasswordHasher(
                logRounds: demo ? PasswordHash.demonstration : PasswordHash.standard),
            signingKeyCipher: cipher)
        for warning in services.attestation?.anchorWarnings ?? [] { logger.warning("\(warning)") }
        if demo { try await Demo.addUsers(to: services.users) }
        let application = IdentityServer.application(
            services, host: host, port: port, logger: logger
        ) { printReadyLine(endpoint: $0, clientID: configuration.clients.first?.id ?? "") }
        var group = ServiceGroupConfiguration(
            services: [
                ExpiredRows(database: database, clock: services.clock, logger: logger), application,
            ],
            gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        group.maximumGracefulShutdownDuration = .seconds(5)
        try await ServiceGroup(configuration: group).run()
    }

    /// Prints the line on stdout when the server is ready, and flushes it, because a program may be
    /// waiting for it at the other end of a pipe.
    private func printReadyLine(endpoint: String, clientID: String) {
        var line: [String: JSONValue] = [
            "endpoint": .string(endpoint), "clientID": .string(clientID),
        ]
        if demo {
            let users = Demo.accounts.map {
                ["username": .string($0.key), "password": .string($0.value)] as JSONValue
            }
            line["users"] = .array(users)
        }
        guard let json = try? CanonicalJSON.text(line) else { return }
        print(json)
        fflush(nil)
    }

    static func read(_ path: String) throws(ConfigurationError) -> Data {
        do {
            return try TrustedFile.contents(of: path)
        } catch {
            throw ConfigurationError(
                "the configuration \(path) cannot be read: \(error.reason)", error.recovery)
        }
    }
}

extension ConfigurationError {
    /// The cause and the next step if `error` is about the address to listen on; nil otherwise.
    /// Another start can succeed.
    init?(listening error: any Error, host: String, port: Int) {
        let address = "\(host):\(port)"
        switch error {
        case is SocketAddressError:
            self.init(
                "the host name \(host) cannot be resolved",
                "Give an address of this machine with --host.")
        case let error as IOError where error.errnoCode == EADDRINUSE:
            self.init(
                "the address \(address) is in use by another program",
                "Stop that program, or choose another port with --port (0: any free port).")
        case let error as IOError where error.errnoCode == EADDRNOTAVAIL:
            self.init(
                "this machine does not have the address \(host)",
                "Give an address of this machine with --host.")
        case let error as IOError where error.errnoCode == EACCES:
            self.init(
                "this process may not listen on \(address)",
                "Choose a port from 1024 to 65535 with --port.")
        default: return nil
        }
        isTemporary = true
    }
}

/// The configuration of `--demo`: one client and two users with public passwords.
enum Demo {
    /// User names and passwords.
    static let accounts: KeyValuePairs = ["alice": "wonderland-1865", "bob": "builder-1999-yes"]

    /// Accepts redirects to any port of the loopback addresses, with the usual paths of
    /// command-line clients.
    static var configuration: ServerConfiguration {
        let client = ClientConfiguration(
            id: "latchkey-demo", name: "Latchkey demo",
            redirectURIs: ["127.0.0.1", "[::1]"].flatMap { host in
                ["/", "/callback", "/authorized"].map { "http://\(host)\($0)" }
            })
        var configuration = ServerConfiguration(clients: [client])
        configuration.identity.biometric.listEnabled = true
        return configuration
    }

    /// Adds the users that do not exist yet.
    static func addUsers(to users: UserStore) async throws {
        for (name, password) in accounts where try await users.user(named: name) == nil {
            do {
                try await users.add(username: name, password: password)
            } catch UserStore.AddError.nameTaken {
                // Another server on the database was faster.
            }
        }
    }
}
