import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeyPresence
import LatchkeyServices
import Logging

extension CommandContext {
    /// The container's login.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` if no server is configured.
    func login() async throws -> Container {
        let server = try identityServer()
        let configuration = ContainerConfiguration(
            endpoint: server.endpoint, clientID: server.clientID,
            additionalOrigins: trustedOrigins, disclosesHardware: discloses)
        return try Container(
            configuration, records: await records(), presence: presence, browser: browser,
            transport: ServerTransport(log: log, console: console))
    }

    /// Shows what a server learns about the hardware, even with `--quiet`. Running the command is
    /// the consent.
    @Sendable func discloses(_ disclosure: AttestationDisclosure) -> Bool {
        console.warn(disclosure.text)
        return true
    }

    /// The configured server and the OAuth client ID.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` if one is missing.
    func identityServer() throws(KeystoreError) -> (endpoint: String, clientID: String) {
        guard let endpoint = settings.endpoint, let clientID = settings.clientID, !clientID.isEmpty
        else {
            throw KeystoreError(
                operation: "find the identity server", code: .invalidInput,
                reason: settings.missingServer.reason,
                recovery: "\(settings.missingServer.recovery)")
        }
        return (endpoint, clientID)
    }
}

/// Runs an operation that informs the server. If the server cannot be reached, the error's next
/// step mentions `--force`.
func mentioningForce(_ body: () async throws -> Void) async throws {
    do {
        try await body()
    } catch let error as LoginError
        where error.code == .network
        && !error.recoveryAction.actions.contains(.forceDisable)
        && !error.recoveryAction.actions.contains(.forceLogout)
    {
        throw error.with(
            recovery: error.recoveryAction.then(
                "With --force, the command works on this machine only, and the server keeps its data."
            ))
    }
}

/// The HTTP client of the tool. Logs the method, the path without its query, and the status of each
/// exchange, but no headers or bodies. Reports that it waits after one second.
struct ServerTransport: HTTPTransport {
    let log: Logger
    let console: Console
    private let transport = CurlTransport()

    init(log: Logger, console: Console) {
        self.log = log
        self.console = console
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        let waiting = Task { [console] in
            try await Task.sleep(for: .seconds(1))
            console.say("Waiting for \(request.authority ?? "the server") to answer …")
        }
        defer { waiting.cancel() }
        let (response, bytes) = try await transport.send(request, body: body)
        let path = request.path?.prefix { $0 != "?" } ?? ""
        log.debug("\(request.method) \(path)", metadata: ["status": "\(response.status.code)"])
        return (response, bytes)
    }

    func note(_ text: String) { log.debug("\(text)") }
}

/// Comparison of server addresses.
enum ServerAddress {
    /// Whether both addresses name the same server, apart from letter case and a final slash.
    static func isSame(_ one: String, _ other: String) -> Bool {
        guard let one = Endpoint(one), let other = Endpoint(other) else { return one == other }
        return bare(one) == bare(other)
    }

    private static func bare(_ endpoint: Endpoint) -> String {
        endpoint.text.hasSuffix("/") ? String(endpoint.text.dropLast()) : endpoint.text
    }
}
