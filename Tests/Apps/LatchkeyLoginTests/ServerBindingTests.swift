import GRDB
import HTTPTypes
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import RawDatabase
import Testing

@testable import LatchkeyLogin

/// A stored login belongs to the server and client at which it was made.
@Suite(.softwareTPM) struct ServerBindingTests {
    private func enable(_ bench: Bench) async throws -> KeyID {
        let container = try await bench.start()
        try await container.authorize()
        return try await container.enableBiometric().id
    }

    private func stored(_ bench: Bench) async throws -> [String] {
        let records = try await bench.records()
        var stored: [String] = []
        for kind in ["login.session", "login.key", "login.hint", "login.identity"] {
            stored += try await records.list(kind).map { "\($0.id) \($0.generation)" }
        }
        return stored
    }

    @Test(arguments: [(ImpersonatingTransport.address, "app"), (FakeIdentity.address, "other")])
    func `another server or client gets no request, and there is no prompt`(
        endpoint: String, clientID: String
    ) async throws {
        try await Bench.with { bench in
            _ = try await enable(bench)
            let before = try await stored(bench)
            let pages = bench.browser.visited.count
            for operation in ContainerOperation.allCases {
                let wire = RecordingTransport(forwardingTo: ImpersonatingTransport(bench.identity))
                let presence = ScriptedPresence(Array(repeating: .pin(Bench.pin), count: 4))
                let other = try await bench.start(
                    presence: presence, transport: wire, endpoint: endpoint, clientID: clientID)
                await #expect(throws: login(.conflict), "\(operation)") {
                    try await operation.run(other)
                }
                #expect(wire.recordings.isEmpty, "\(operation): \(wire.summary)")
                #expect(presence.requests.isEmpty, "\(operation)")
            }
            #expect(bench.browser.visited.count == pages)
            let other = try await bench.start(endpoint: endpoint, clientID: clientID)
            #expect(try await other.isBiometricEnabled())
            #expect(try await other.listBiometricKeys().count == 1)
            #expect(try await other.sessionState == .authenticated)
            #expect(try await other.lastUserID == "user-a")
            #expect(try await stored(bench) == before)
            try await bench.start().authenticateBiometric()
        }
    }

    /// Another process may have put it there after the operation's first look at the rows.
    @Test func `a verified row of another server is refused when it is read`() async throws {
        try await Bench.with { bench in
            _ = try await enable(bench)
            let server = try #require(
                LoginServer(address: ImpersonatingTransport.address, clientID: "app"))
            let rows = LoginRows(
                records: try await bench.records(), server: server, presence: NobodyPresent())
            let prompt = PromptContext(reason: "log in")
            await #expect(throws: login(.conflict)) { try await rows.session(for: prompt) }
            await #expect(throws: login(.conflict)) {
                try await rows.key(for: prompt, authorizedBy: PresenceSession(NobodyPresent()))
            }
            await #expect(throws: login(.conflict)) { try await rows.hint(for: prompt) }
            #expect(try await rows.identities(for: prompt).isEmpty)
        }
    }

    @Test func `the error names both servers and the status names the stored one`() async throws {
        try await Bench.with { bench in
            _ = try await enable(bench)
            let other = try await bench.start(
                endpoint: ImpersonatingTransport.address + "/", clientID: "other")
            let error = await #expect(throws: LoginError.self) { try await other.logout() }
            #expect(
                error?.reason
                    == "the stored login belongs to ‘https://identity.test’ (client ‘app’), and the configured "
                    + "server is ‘https://other.test’ (client ‘other’)")
            #expect(error?.code.commonCode == .conflict)
            let status = try await ContainerStatus(of: bench.records("default", AbsentKeystore()))
            #expect(status.server?.address == FakeIdentity.address)
            #expect(status.server?.clientID == "app")
        }
    }

    @Test func `a server that relays another server's challenge does not log in there`()
        async throws
    {
        try await Bench.with { bench in
            _ = try await enable(bench)
            try await bench.start().logout(keepBiometric: true)
            let wire = RecordingTransport(forwardingTo: ImpersonatingTransport(bench.identity))
            let relayed = try await bench.start(
                transport: wire, endpoint: ImpersonatingTransport.address)
            await #expect(throws: login(.conflict)) { try await relayed.authenticateBiometric() }
            #expect(wire.recordings.isEmpty)
            #expect(await bench.identity.refreshTokens.isEmpty)
        }
    }

    @Test func `two refusals of another server delete no key`() async throws {
        try await Bench.with { bench in
            let kid = try await enable(bench)
            let stranger = try FakeIdentity()
            let misled = try await bench.start(
                transport: ImpersonatingTransport(stranger),
                endpoint: ImpersonatingTransport.address)
            await #expect(throws: login(.conflict)) { try await misled.authenticateBiometric() }
            #expect(try await bench.start().authenticateBiometric().keyID == kid)
        }
    }

    /// An attacker who can edit the store names another server in the rows.
    @Test(arguments: [
        ContainerOperation.authenticate, .refresh, .logoutKeepingKey, .disable, .enable,
    ])
    func `rows with an edited server are damaged, and no credential leaves`(
        operation: ContainerOperation
    ) async throws {
        try await Bench.with { bench in
            _ = try await enable(bench)
            let database = try DatabaseQueue.raw(
                at: "\(bench.directory.path)/default/latchkey.sqlite")
            try await database.write { database in
                try database.execute(
                    sql:
                        "UPDATE record SET attributes = replace(attributes, 'identity.test', 'other.test')"
                )
                #expect(database.changesCount > 3)
                if operation == .enable {
                    try database.execute(sql: "DELETE FROM record WHERE id = 'login.key'")
                }
            }
            let wire = RecordingTransport(forwardingTo: ImpersonatingTransport(bench.identity))
            let other = try await bench.start(
                transport: wire, endpoint: ImpersonatingTransport.address)
            await #expect(throws: keystore(.damaged)) { try await operation.run(other) }
            #expect(
                wire.recordings.allSatisfy {
                    $0.request.path == "/.well-known/openid-configuration"
                })
        }
    }

    @Test(arguments: [true, false])
    func `force removes another server's login and sends no request`(isLogout: Bool) async throws {
        try await Bench.with { bench in
            let kid = try await enable(bench)
            let wire = RecordingTransport(forwardingTo: ImpersonatingTransport(bench.identity))
            let other = try await bench.start(
                transport: wire, endpoint: ImpersonatingTransport.address)
            if isLogout {
                try await other.logout(force: true)
            } else {
                try await other.disableBiometric(force: true)
            }
            #expect(wire.recordings.isEmpty)
            #expect(try await other.listBiometricKeys().isEmpty)
            #expect(try await other.sessionState == (isLogout ? .noSession : .authenticated))
            #expect(await bench.identity.identities.keys.map(\.self) == [kid.rawValue])
        }
    }

    @Test func `a key that is left at one server is removed there and is not named to another`()
        async throws
    {
        try await Bench.with { bench in
            let kid = try await enable(bench)
            let stranger = try FakeIdentity()
            await stranger.set { $0.issuer = ImpersonatingTransport.address }
            let wire = RecordingTransport(forwardingTo: ImpersonatingTransport(stranger))
            let other = try await bench.start(
                transport: wire, browser: VisitingBrowser(stranger),
                endpoint: ImpersonatingTransport.address)
            try await other.logout(force: true)
            try await other.authorize()
            try await other.enableBiometric()
            try await other.disableBiometric()
            await #expect(throws: login(.notEnabled)) { try await other.disableBiometric() }
            try await other.logout()
            #expect(wire.recordings.allSatisfy { !$0.text.contains(kid.rawValue) })
            #expect(await bench.identity.identities.count == 1)
            let first = try await bench.start()
            // The owner's next login removes it.
            try await first.authorize()
            #expect(await bench.identity.identities.isEmpty)
            await #expect(throws: login(.notEnabled)) { try await first.disableBiometric() }
        }
    }
}
