import Crypto
import FoundationEssentials
import HTTPTypes
import Hummingbird
import Latchkey
import LatchkeyJOSE
import LatchkeyOAuth
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Logging
import ServiceLifecycle
import Testing

@testable import latchkey_identity

/// The real server on a free port, with a new database (``TestDatabase``), two users and a clock
/// that the test controls.
struct TestServer: Sendable {
    static let redirectURI = "http://127.0.0.1:4711/callback"
    /// Another redirect URI of the client.
    static let siteRedirectURI = "https://app.example.com/callback"
    static let password = "correct horse battery"
    static let biometricGrant = "urn:authgear:params:oauth:grant-type:biometric-request"
    static let fullScope = "openid offline_access https://authgear.com/scopes/full-access"

    let origin: String
    let services: IdentityServices
    let time: SettableClock
    let alice: User
    let bob: User
    private let transport = CurlTransport(timeout: 300)

    /// A configuration with one client, `app`.
    static var configuration: ServerConfiguration {
        ServerConfiguration(clients: [
            ClientConfiguration(
                id: "app",
                redirectURIs: [
                    "http://127.0.0.1/callback", "com.example.app://done", siteRedirectURI,
                ])
        ])
    }

    static var quiet: Logger {
        var logger = Logger(label: "test") { StreamLogHandler.standardError(label: $0) }
        logger.logLevel = .critical
        return logger
    }

    /// Starts a server, runs `body`, and stops the server.
    static func run(
        _ configure: (inout ServerConfiguration) -> Void = { _ in }, logger: Logger = quiet,
        logRounds: Int = 4,
        body: @Sendable (TestServer) async throws -> Void
    ) async throws {
        var configuration = configuration
        configure(&configuration)
        let time = SettableClock.atWholeSecond()
        let services = try await IdentityServices(
            configuration, database: await TestDatabase.open(),
            hasher: PasswordHasher(logRounds: logRounds),
            clock: time.clock,
            signingKeyCipher: TestDatabase.cipher())
        let alice = try await services.users.add(username: "alice", password: password)
        let bob = try await services.users.add(username: "bob", password: password)

        let (origins, ready) = AsyncStream.makeStream(of: String.self)
        let group = ServiceGroup(
            configuration: .init(
                services: [
                    IdentityServer.application(services, host: "127.0.0.1", port: 0, logger: logger)
                    {
                        ready.yield($0)
                        ready.finish()
                    }
                ], logger: logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            var iterator = origins.makeAsyncIterator()
            let origin = try #require(await iterator.next())
            let outcome: Result<Void, any Error>
            do {
                try await TestDevice.$issuer.withValue(origin) {
                    try await body(
                        TestServer(
                            origin: origin, services: services, time: time, alice: alice, bob: bob))
                }
                outcome = .success(())
            } catch {
                outcome = .failure(error)
            }
            await group.triggerGracefulShutdown()
            try outcome.get()
        }
    }

    // MARK: Requests

    func send(
        _ method: HTTPRequest.Method, _ path: String, headers: HTTPFields = [:], body: String = ""
    ) async throws -> Answer {
        let request = HTTPRequest(
            method: method, scheme: "http", authority: String(origin.split(separator: "/")[1]),
            path: path,
            headerFields: headers)
        let (response, bytes) = try await transport.send(request, body: Array(body.utf8))
        return Answer(
            status: response.status.code, headers: response.headerFields,
            body: String(decoding: bytes, as: UTF8.self))
    }

    func post(_ path: String, form: [String: String], bearer: String? = nil) async throws -> Answer
    {
        var headers: HTTPFields = [.contentType: "application/x-www-form-urlencoded"]
        if let bearer { headers[.authorization] = "Bearer \(bearer)" }
        return try await send(.post, path, headers: headers, body: Self.encode(form))
    }

    func post(
        _ path: String, json: String, bearer: String? = nil, type: String = "application/json"
    ) async throws
        -> Answer
    {
        var headers: HTTPFields = [.contentType: type]
        if let bearer { headers[.authorization] = "Bearer \(bearer)" }
        return try await send(.post, path, headers: headers, body: json)
    }

    func userInfo(_ accessToken: String) async throws -> Answer {
        try await send(.get, "/oauth2/userinfo", headers: [.authorization: "Bearer \(accessToken)"])
    }

    static func encode(_ form: [String: String]) -> String {
        FormEncoding.encode(form.map { ($0.key, $0.value) })
    }

    // MARK: Common steps

    func challenge(_ purpose: String = "biometric_request") async throws -> String {
        let answer = try await post("/oauth2/challenge", json: #"{"purpose":"\#(purpose)"}"#)
            .success()
        return try #require(answer["result"]?["token"]?.string)
    }

    /// Logs in with the browser and exchanges the code.
    func login(_ username: String = "alice", scope: String = fullScope) async throws -> Tokens {
        let browser = TestBrowser(server: self)
        let request = AuthorizationParameters(scope: scope)
        let callback = try await browser.login(request, username: username)
        let code = try #require(try callback.redirectParameter("code"))
        return try Tokens(
            await exchange(code: code, request).success())
    }

    func exchange(
        code: String, _ request: AuthorizationParameters, overriding changes: [String: String] = [:]
    ) async throws -> Answer {
        try await post(
            "/oauth2/token",
            form: [
                "client_id": "app", "grant_type": "authorization_code", "code": code,
                "redirect_uri": request.redirectURI, "code_verifier": request.verifier,
            ].merging(changes) { $1 })
    }

    func refresh(_ refreshToken: String, client: String = "app") async throws -> Answer {
        try await post(
            "/oauth2/token",
            form: [
                "client_id": client, "grant_type": "refresh_token", "refresh_token": refreshToken,
            ])
    }

    /// Sends a biometric request without changes.
    func biometric(
        _ jwt: String, bearer: String? = nil, client: String = "app",
        overriding changes: [String: String] = [:]
    ) async throws -> Answer {
        try await post(
            "/oauth2/token",
            form: ["client_id": client, "grant_type": Self.biometricGrant, "jwt": jwt].merging(
                changes
            ) { $1 },
            bearer: bearer)
    }

    func setUp(_ device: TestDevice, bearer: String) async throws -> Answer {
        try await biometric(device.setup(challenge: challenge(), now: time.seconds), bearer: bearer)
    }

    func authenticate(_ device: TestDevice, overriding changes: [String: String] = [:]) async throws
        -> Answer
    {
        try await biometric(
            device.authentication(
                challenge: challenge(), now: time.seconds,
                payload: ["client_id": .string(changes["client_id"] ?? "app")]),
            overriding: ["scope": Self.fullScope].merging(changes) { $1 })
    }
}

/// The tokens in a response.
struct Tokens: Sendable {
    let access: String
    let refresh: String?
    let id: String?

    init(_ json: JSONValue) throws {
        access = try #require(json["access_token"]?.string)
        refresh = json["refresh_token"]?.string
        id = json["id_token"]?.string
        #expect(json["token_type"] == .string("Bearer"))
    }

    /// The ID token's claims, not verified.
    var claims: JSONValue {
        get throws {
            let parts = try #require(id).split(separator: ".")
            let payload = try #require(Base64URL.decode(parts[1]))
            return try JSONDecoder().decode(JSONValue.self, from: payload)
        }
    }
}
