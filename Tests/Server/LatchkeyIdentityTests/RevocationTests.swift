import FoundationEssentials
import Hummingbird
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import NIOCore
import ServiceLifecycle
import Synchronization
import Testing

@testable import latchkey_identity

/// The keys and sessions of a user's machine that the server still accepts after each event: the
/// table of the article "Operating servers".
@Suite("Revocations") struct RevocationTests {
    enum Event: CaseIterable {
        case nothing
        case appDisablesLogin, lockerEndsItself
        case deviceRemovedOnPage, enrolmentRevokedOnPage, deviceRemovedOnPageOfApp
        case deviceRevoked, enrolmentRevoked, userRevoked
        case userDeleted, passwordChanged

        /// The keys and sessions that it ends.
        fileprivate var ends: Set<Held> {
            let device: Set<Held> = [.deviceKey, .deviceSession]
            let enrolment: Set<Held> = [.enrolment, .enrolmentSession]
            let logins: Set<Held> = [
                .login, .boundLogin, .setUp, .newEnrolment, .code, .appToken, .appPage, .browser,
            ]
            return switch self {
            case .nothing: []
            case .appDisablesLogin: device
            case .lockerEndsItself: enrolment
            case .deviceRemovedOnPage, .deviceRemovedOnPageOfApp, .deviceRevoked:
                device.union(logins)
            case .enrolmentRevokedOnPage, .enrolmentRevoked: enrolment.union(logins)
            case .userRevoked: Set(Held.allCases).subtracting([.password])
            case .userDeleted: Set(Held.allCases)
            case .passwordChanged: [.password]
            }
        }
    }

    @Test(arguments: Event.allCases) func `it ends what the table says, and nothing else`(
        event: Event
    ) async throws {
        try await TestServer.run {
            $0.identity.biometric.listEnabled = true
        } body: { server in
            let machine = try await UserMachine(server)
            try await machine.perform(event)
            #expect(try await machine.accepted() == Set(Held.allCases).subtracting(event.ends))
        }
    }

    @Test func `the command revokes at a running server`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let config = directory.path(of: "config.json")
            try Data(
                #"""
                {"clients": [{"client_id": "app",
                              "redirect_uris": ["http://127.0.0.1/callback", "\#(TestServer.siteRedirectURI)"]}]}
                """#.utf8
            ).write(to: URL(filePath: config))
            let (database, storage) = try await IdentityProcess.storage(in: directory)
            @Sendable func run(_ arguments: String...) async throws -> String {
                let outcome = try await SystemProgram(IdentityProcess.program).result(
                    of: ["devices"] + arguments + ["--database", database])
                #expect(outcome.status == 0, "\(outcome.errors)")
                return outcome.output
            }
            try await IdentityProcess.withRunning(["--config", config, "--port", "0"] + storage) {
                try await TestServer.lend($0, database: database) { server in
                    let machine = try await UserMachine(server)
                    let device = try #require(
                        try await server.services.devices.devices(of: server.alice.id).first)
                    #expect(try await run("revoke", device.id).hasPrefix("Removed the device. "))
                    #expect(
                        try await machine.accepted()
                            == Set(Held.allCases).subtracting(Event.deviceRevoked.ends))
                    // The other device, the enrolment, and no other.
                    #expect(
                        try await run("revoke", "--user", "alice")
                            == "Removed devices: 2. All sessions of the user ended.\n")
                    #expect(try await machine.accepted() == [.password])
                    #expect(
                        try await run("revoke", "--user", "alice")
                            == "Removed devices: 0. All sessions of the user ended.\n")
                }
            }
        }
    }

    /// The session ends after the server has accepted it, while the server reads the request.
    @Test func `a session that ends during the request adds no easy-access key`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let locker = server.services.locker
            let refresh = try #require(device.tokens.refresh)
            let assertion = try await server.assertion(
                "easy-access-enable", by: LockerTestKey(), of: device.id)
            let router = Router(context: IdentityContext.self)
            router.add(middleware: RefusalMiddleware())
            router.add(
                middleware: LateBody {
                    let answer = try await server.post(
                        "/oauth2/revoke", form: ["token": refresh])
                    #expect(answer.status == 200, "\(answer.body)")
                })
            LockerEndpoints(services: server.services).add(to: router)
            try await server.serving(router) { late in
                try await late.send(
                    assertion, as: "easy-access-enable", to: device, bearer: device.tokens.access
                ).expectRefusal(
                    401, "invalid_token", "the access token is unknown or has expired")
            }
            let stored = try await locker.registry.enrolment(id: device.id)
            #expect(stored?.easyAccessKeys.count == 1)
        }
    }

    @Test func `a session that has ended stores nothing more`() async throws {
        try await TestServer.run { server in
            let services = server.services
            let tokens = try await server.login()
            let session = try #require(
                try await services.grants.session(accessToken: tokens.access))
            try await services.grants.insert(
                AuthorizationCode(
                    digest: OpaqueToken.digest(OpaqueToken.bytes()), grantID: "g", clientID: "app",
                    userID: server.alice.id, redirectURI: "", codeChallenge: "", scope: "openid",
                    nonce: nil, keyThumbprint: nil, authTime: 1, expiresAt: 9e9, isUsed: false))
            #expect(try await services.grants.write(for: session) { _ in true } == true)
            _ = try await services.revocation.revokeAll(of: server.alice.id)
            #expect(try await services.grants.write(for: session) { _ in true } == nil)
            let left = try await services.database.read {
                try $0.row("SELECT count(*) AS count FROM authorization_code")?.integer("count")
            }
            #expect(left == 0)
        }
    }

    @Test func `a browser's session that has ended revokes nothing`() async throws {
        try await TestServer.run { server in
            let services = server.services
            try await server.setUp(TestDevice(), bearer: server.login().access).success()
            let devices = try await services.devices.devices(of: server.alice.id)
            let cookie = try await services.sessions.start(for: server.alice, replacing: nil)
            let browser = try #require(try await services.sessions.session(cookie))
            try await services.sessions.end(cookie)
            let outcome = try await services.revocation.revoke(
                #require(devices.first).id, .biometric, requestedIn: browser)
            #expect(outcome == nil)
            #expect(try await services.devices.devices(of: server.alice.id) == devices)
        }
    }

    @Test func `another user's devices and sessions stay`() async throws {
        try await TestServer.run { server in
            let (device, other) = (TestDevice(), TestDevice())
            let tokens = try await server.login("bob")
            try await server.setUp(device, bearer: tokens.access).success()
            try await server.setUp(other, bearer: server.login().access).success()
            let bobs = try #require(
                try await server.services.devices.devices(of: server.bob.id).first)
            let (revocation, sessions) = (server.services.revocation, server.services.sessions)
            let cookie = try await sessions.start(for: server.alice, replacing: nil)
            let browser = try #require(try await sessions.session(cookie))
            #expect(
                try await revocation.revoke(bobs.id, .biometric, requestedIn: browser) == false)
            #expect(try await revocation.revokeAll(of: server.alice.id) == 1)
            try await server.userInfo(tokens.access).success()
            try await server.authenticate(device).success()
        }
    }
}

/// Runs an event when the endpoint begins to read the body of a request.
private struct LateBody: RouterMiddleware {
    let event: @Sendable () async throws -> Void

    @concurrent
    func handle(_ request: Request, context: IdentityContext, next: Next) async throws -> Response {
        var request = request
        let body = Mutex<ByteBuffer?>(
            try await request.body.collect(upTo: context.maxUploadSize))
        request.body = RequestBody(
            asyncSequence: AsyncThrowingStream {
                guard let body = body.withLock({ $0.take() }) else { return nil }
                try await event()
                return body
            })
        return try await next(request, context)
    }
}

extension TestServer {
    /// Serves other routes with the same services.
    fileprivate func serving(
        _ router: Router<IdentityContext>, _ body: (TestServer) async throws -> Void
    ) async throws {
        let (ports, ready) = AsyncStream.makeStream(of: Int.self)
        let application = Application(
            router: router,
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { ready.yield($0.localAddress?.port ?? 0) }, logger: Self.quiet)
        let group = ServiceGroup(
            configuration: .init(services: [application], logger: Self.quiet))
        async let end: Void = group.run()
        try await withTeardown({ await group.triggerGracefulShutdown() }) {
            var iterator = ports.makeAsyncIterator()
            let port = try #require(await iterator.next())
            try await body(
                TestServer(
                    origin: "http://127.0.0.1:\(port)", services: services, time: time,
                    alice: alice, bob: bob))
        }
        try await end
    }
}
