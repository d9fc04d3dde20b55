package import Foundation
internal import Glibc
internal import Latchkey
internal import LatchkeyJOSE
package import LatchkeySimulators
package import Testing

/// A process of latchkey-identity.
package struct IdentityProcess: Sendable {
    /// A user of a server in demo mode.
    package struct User: Decodable, Sendable {
        /// The name for the login.
        package let username: String
        /// The password for the login.
        package let password: String
    }

    /// The server's URL with its port.
    package let endpoint: String
    /// The ID of the registered client.
    package let clientID: String
    /// The demo users; empty without `--demo`.
    package let users: [User]
    private let process: RunningProgram
    /// The folder of the signing key file, if the test did not name a database.
    private let directory: TemporaryDirectory?
    /// The output after the first line. It is read at once, so that a full pipe never blocks the
    /// server.
    private let rest: Task<(output: String, errors: String), Never>

    /// The first line of standard output.
    private struct Ready: Decodable {
        let endpoint: String
        let clientID: String
        let users: [User]?
    }

    /// The path of the program.
    package static var program: String {
        get throws { try BuiltProduct.path(of: "latchkey-identity") }
    }

    /// Starts `latchkey-identity serve` and waits until the server is ready.
    ///
    /// - Parameters:
    ///   - arguments: Without `--database`, the server uses a database in memory or, with
    ///     `LATCHKEY_TEST_DATABASE=postgresql`, a new database of ``PostgreSQLServer/shared``.
    ///   - launcher: A program with arguments that starts the server, for example `prlimit`.
    /// - Throws: An issue of the test if the server does not start.
    package init(_ arguments: [String], through launcher: [String] = []) async throws {
        var (arguments, directory) = (arguments, TemporaryDirectory?.none)
        if PostgreSQLServer.isSelected, !arguments.contains("--database") {
            let folder = try TemporaryDirectory()
            arguments += try await Self.storage(in: folder).arguments
            directory = folder
        }
        self.directory = directory
        let (process, ready) = try await Self.start(
            launcher + [try Self.program, "serve"] + arguments)
        rest = Task { await process.remainder() }
        (endpoint, clientID, users) = (ready.endpoint, ready.clientID, ready.users ?? [])
        self.process = process
    }

    /// Starts a server. Tries again while another process has the port: the system may have
    /// assigned a port that the test chose.
    private static func start(_ command: [String]) async throws -> (RunningProgram, Ready) {
        var (started, failure) = ((RunningProgram, Ready)?.none, "")
        try await poll {
            let process = try RunningProgram(URL(filePath: command[0]), Array(command.dropFirst()))
            let line = await process.output { _ in true }
            if let ready = try? JSONDecoder().decode(Ready.self, from: Data(line.utf8)) {
                started = (process, ready)
                return true
            }
            await process.stop(SIGKILL)
            failure = await line + process.remainder().errors
            return !failure.contains("is in use by another program")
        }
        return try #require(started, "the server did not start: \(failure)")
    }

    /// Returns the location of a new database with tables, which several servers can use, and the
    /// arguments for them: a file in the directory or, with `LATCHKEY_TEST_DATABASE=postgresql`, a
    /// database of ``PostgreSQLServer/shared`` with a signing key file.
    package static func storage(
        in directory: TemporaryDirectory
    ) async throws -> (location: String, arguments: [String]) {
        guard PostgreSQLServer.isSelected else {
            let file = directory.path(of: "identity.sqlite")
            try await migrate(file)
            return (file, ["--database", file])
        }
        let address = try await PostgreSQLServer.shared.database()
        try await migrate(address)
        return (
            address,
            ["--database", address, "--signing-key-file", try signingKeyFile(in: directory)]
        )
    }

    /// Creates the tables.
    private static func migrate(_ location: String) async throws {
        let result = try await SystemProgram(program).result(
            of: ["migrate", "--database", location])
        try #require(result.isSuccess, "\(result.text)")
    }

    /// Writes a signing key file, which PostgreSQL requires.
    ///
    /// - Parameter byte: Each of its 32 bytes.
    /// - Returns: Its path.
    package static func signingKeyFile(in directory: TemporaryDirectory, byte: UInt8 = 7) throws
        -> String
    {
        let path = directory.path(of: "signing-key-\(byte)")
        let isCreated = FileManager.default.createFile(
            atPath: path, contents: Data(repeating: byte, count: 32),
            attributes: [.posixPermissions: 0o600])
        try #require(isCreated)
        return path
    }

    /// The server's port.
    package var port: String { String(endpoint.split(separator: ":").last ?? "") }

    /// Ends the server with a signal.
    ///
    /// - Returns: The exit code, or the number of the signal that ended the server.
    @discardableResult
    package func stop(_ signal: Int32 = SIGTERM) async -> Int32 { await process.stop(signal) }

    /// The log of a server that has ended.
    package var log: String { get async { await rest.value.errors } }

    /// Runs `body` with a running server, then stops the server.
    package static func withRunning<R>(
        _ arguments: [String], _ body: (IdentityProcess) async throws -> R
    ) async throws -> R {
        let server = try await IdentityProcess(arguments)
        return try await withTeardown({ await server.stop() }) { try await body(server) }
    }

    /// Runs `body` with a server in demo mode, then stops the server.
    ///
    /// - Parameters:
    ///   - port: nil for a free port.
    ///   - client: Members of the client's configuration.
    ///   - configuration: Other members of the server's configuration.
    package static func with<R>(
        port: String? = nil, client: [String: Any] = [:], _ configuration: [String: Any] = [:],
        _ body: (IdentityProcess) async throws -> R
    ) async throws -> R {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        var configuration = configuration
        let standard: [String: Any] = [
            "client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"],
        ]
        configuration["clients"] = [standard.merging(client) { $1 }]
        let file = directory.path(of: "config.json")
        try JSONSerialization.data(withJSONObject: configuration).write(to: URL(filePath: file))
        return try await withRunning(
            ["--demo", "--config", file, "--log-level", "critical"]
                + (port.map { ["--port", $0] } ?? []), body)
    }
}

/// A process of Canaille, an independent OpenID provider, on a free port. `scripts/setup` installs
/// it.
///
/// It supports single-use refresh tokens, discovery, RS256, revocation, introspection, user info
/// and a client with a secret.
package struct OpenIDProvider: Decodable, Sendable {
    /// The issuer URL.
    package let issuer: String
    package let clientID: String
    package let clientSecret: String
    /// The token endpoint's JSON response to a login with the nonce `n`.
    package let answer: Data

    private enum CodingKeys: String, CodingKey {
        case issuer, clientID, clientSecret, answer
    }

    static let interpreter: URL = {
        let cache =
            ProcessInfo.processInfo.environment["XDG_CACHE_HOME"] ?? "\(NSHomeDirectory())/.cache"
        return URL(filePath: "\(cache)/latchkey/canaille/bin/python")
    }()

    /// The programs in Python that the interpreter runs.
    static let scripts = BuiltProduct.packageFolder.appending(
        path: "Tests/Testing/LatchkeyTestSupport/OpenID")

    package static let isInstalled = FileManager.default.isExecutableFile(atPath: interpreter.path)

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        issuer = try container.decode(String.self, forKey: .issuer)
        clientID = try container.decode(String.self, forKey: .clientID)
        clientSecret = try container.decode(String.self, forKey: .clientSecret)
        answer = try JSONEncoder().encode(container.decode(JSONValue.self, forKey: .answer))
    }

    /// Runs `body` with a running provider, then stops the provider.
    ///
    /// - Parameter seconds: The delay of each response of the token endpoint.
    /// - Returns: The result of `body`, and the number of requests to the token endpoint.
    package static func withRunning<R>(
        holding seconds: Int = 0, _ body: (OpenIDProvider) async throws -> R
    ) async throws -> (result: R, tokenRequests: Int) {
        let script = Self.scripts.appending(path: "openid-provider.py").path
        let process = try RunningProgram(interpreter, [script, String(seconds)])
        let line = await process.output { _ in true }
        let result = try await withTeardown({ await process.stop() }) {
            try await body(
                try JSONDecoder().decode(OpenIDProvider.self, from: Data(line.utf8))
            )
        }
        let requests = await process.remainder().errors.split(separator: "\n").count {
            $0 == "token"
        }
        return (result, requests)
    }
}

extension OpenIDProvider {
    private struct ProofRequest: Encodable {
        let proof: String?
        let method: String
        let url: String
        let now: Int
        let token: String?
        let nonce: String?

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encodeIfPresent(proof, forKey: .proof)
            try container.encode(method, forKey: .method)
            try container.encode(url, forKey: .url)
            try container.encode(now, forKey: .now)
            // The script reads null as absent.
            try container.encode(token, forKey: .token)
            try container.encode(nonce, forKey: .nonce)
        }

        enum CodingKeys: CodingKey { case proof, method, url, now, token, nonce }
    }

    /// Checks a DPoP proof with joserfc, which the provider uses.
    ///
    /// - Returns: The thumbprint of its key.
    package static func thumbprint(
        of proof: String, _ method: String, _ url: String, now: Int, token: String? = nil,
        nonce: String? = nil
    ) async throws -> String {
        try await run(
            ProofRequest(
                proof: proof, method: method, url: url, now: now, token: token, nonce: nonce))
    }

    /// Makes a DPoP proof with joserfc and a new key.
    package static func proof(
        _ method: String, _ url: String, now: Int, token: String? = nil, nonce: String? = nil
    ) async throws -> String {
        try await run(
            ProofRequest(
                proof: nil, method: method, url: url, now: now, token: token, nonce: nonce))
    }

    private static func run(_ request: ProofRequest) async throws -> String {
        let script = scripts.appending(path: "dpop-proof.py").path
        let outcome = try await SystemProgram(interpreter.path).result(
            of: [script], input: Array(try JSONEncoder().encode(request)))
        try #require(outcome.isSuccess, "\(outcome.errors)")
        return outcome.output.trimmingCharacters(in: .newlines)
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips the test, with the reason, if the OpenID provider is not installed.
    package static var requiresOpenIDProvider: Self {
        .enabled(
            if: OpenIDProvider.isInstalled, "needs the OpenID provider that scripts/setup installs")
    }
}
