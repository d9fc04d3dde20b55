import Foundation
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Against the real server over real HTTP.
@Suite(.softwareTPM) struct EndToEndTests {
    /// The server ends a device's session when the device logs in again: no other process may
    /// interrupt that.
    @Test func `processes that log in at once all succeed`() async throws {
        try await IdentityProcess.with { server in
            let machine = try await Machine(server)
            let first = try await machine.start()
            try await first.authorize()
            try await first.enableBiometric()
            var others: [Container] = []
            for _ in 1...4 { others.append(try await machine.start()) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for container in others {
                    group.addTask { try await container.authenticateBiometric() }
                }
                try await group.waitForAll()
            }
            #expect(try await machine.start().fetchUserInfo().userID == first.lastUserID)
        }
    }

    @Test func `refresh tokens rotate, and a second process follows`() async throws {
        try await IdentityProcess.with { server in
            let machine = try await Machine(server)
            try await machine.start().authorize()
            let containers = [try await machine.start(), try await machine.start()]
            for container in containers + containers {
                #expect(try await !container.fetchUserInfo().userID.isEmpty)
            }
        }
    }

    @Test func `authenticating again ends the key's earlier session`() async throws {
        try await IdentityProcess.with { server in
            let machine = try await Machine(server)
            let first = try await machine.start()
            try await first.authorize()
            try await first.enableBiometric()
            try await first.authenticateBiometric()
            let one = try await first.accessToken
            try await first.authenticateBiometric()
            #expect(try await first.accessToken != one)
            #expect(try await first.fetchUserInfo().userID == first.lastUserID)
        }
    }

    @Test
    func
        `the request to a deployed server names the user by an ID token, until biometric login is disabled`()
        async throws
    {
        try await IdentityProcess.with { server in
            let machine = try await Machine(server, transport: DeployedServerTransport())
            let alice = try await machine.start()
            try await alice.authorize()
            try await alice.enableBiometric()
            let owner = try await alice.lastUserID
            try await alice.logout(keepBiometric: true)
            let browser = FormBrowser(server.users[1])
            let bob = try await machine.start(browser)
            try await browser.expectRefusal { try await bob.authorize() }
            #expect(try await bob.sessionState == .noSession)
            #expect(try await bob.lastUserID == owner)
            #expect(try await bob.authenticateBiometric().userInfo.userID == owner)
            try await bob.disableBiometric()
            #expect(try await !bob.isBiometricEnabled())
            try await bob.authorize()
            #expect(try await bob.lastUserID != owner)
        }
    }

    @Test(arguments: [-7_200.0, 7_200])
    func `a wrong clock changes nothing`(offset: TimeInterval) async throws {
        try await IdentityProcess.with { server in
            let machine = try await Machine(server)
            let container = try await machine.start()
            try await container.authorize()
            try await container.enableBiometric()
            let wrong = try await machine.start(pins: 0, now: { Date().addingTimeInterval(offset) })
            await #expect(throws: login(.clockSkew)) { try await wrong.authenticateBiometric() }
            #expect(
                try await container.authenticateBiometric().userInfo.userID == container.lastUserID)
        }
    }

    @Test func `a refusal is reported in the server's words, and nothing is enabled`() async throws
    {
        try await IdentityProcess.with(["identity": ["biometric": ["disabled": true]]]) { server in
            let machine = try await Machine(server)
            defer { withExtendedLifetime(machine) {} }
            let container = try await machine.start()
            try await container.authorize()
            let error = await #expect(throws: LoginError.self) {
                try await container.enableBiometric(replacing: true)
            }
            #expect(
                error?.oauthError
                    == OAuthError(
                        error: "invalid_request",
                        description: "biometric authentication is disabled"))
            #expect(try await !container.isBiometricEnabled())
            #expect(try await container.sessionState == .authenticated)
        }
    }

    @Test func `a client that the server does not know fails at the login page`() async throws {
        try await IdentityProcess.with { server in
            let directory = try TemporaryDirectory()
            let store = try await RecordStore(directory: directory.path)
            let records = try RecordContainer(
                store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
            let container = try Container(
                ContainerConfiguration(endpoint: server.endpoint, clientID: "unknown"),
                records: records,
                presence: ScriptedPresence([]), browser: FormBrowser(server.users[0]))
            await #expect(throws: login(.timedOut)) {
                try await container.authorize(AuthorizationOptions(timeout: .milliseconds(500)))
            }
        }
    }
}

/// Connects to the server, and removes the members from its discovery document that deployed
/// Authgear servers lack.
private struct DeployedServerTransport: HTTPTransport {
    private let transport = CurlTransport()

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(CommonError) -> (
        HTTPResponse, [UInt8]
    ) {
        let (response, bytes) = try await transport.send(request, body: body)
        guard request.path?.hasSuffix("/openid-configuration") == true,
            var document = try? JSONDecoder().decode([String: JSONValue].self, from: Data(bytes))
        else { return (response, bytes) }
        document["biometric_removal_endpoint"] = nil
        document["biometric_login_hint_supported"] = nil
        guard let stripped = try? JSONEncoder().encode(document) else { return (response, bytes) }
        return (response, Array(stripped))
    }
}
