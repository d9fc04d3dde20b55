import Foundation
import HTTPTypes
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Attacks with a discovery document that mixes servers up (RFC 9207 section 1).
@Suite(.softwareTPM) struct MixUpTests {
    private static let discovery = ["GET /.well-known/openid-configuration"]
    private static let attacker = "https://attacker.test"

    /// The attacker's discovery document: the honest server's login page and the attacker's own
    /// token endpoint.
    private static func document(page: String, announcesIssuer: Bool) -> RecordingTransport.Step {
        .json(
            """
            {"issuer": "\(attacker)", "authorization_endpoint": "\(page)", "token_endpoint": "\(attacker)/token",
             "userinfo_endpoint": "\(attacker)/user", "revocation_endpoint": "\(attacker)/revoke",
             "jwks_uri": "\(attacker)/keys", "authorization_response_iss_parameter_supported": \(announcesIssuer)}
            """)
    }

    /// The page is the honest server's own, or the attacker's, which sends the browser on to it.
    @Test(
        arguments: [
            (page: FakeIdentity.address, announces: false, named: String?.none, pages: 0),
            (FakeIdentity.address, false, FakeIdentity.address, 0),
            (FakeIdentity.address, true, nil, 1),
            (FakeIdentity.address, true, FakeIdentity.address, 1),
            (attacker, false, FakeIdentity.address, 1),
        ])
    func `an attacker's token endpoint gets neither the honest server's code nor the verifier`(
        page: String, announces: Bool, named: String?, pages: Int
    ) async throws {
        try await Bench.with { bench in
            await bench.identity.set { $0.namedIssuer = named }
            let wire = RecordingTransport(
                [Self.document(page: page + "/oauth2/authorize", announcesIssuer: announces)],
                forwardingTo: bench.identity)
            let container = try await bench.start(transport: wire, endpoint: Self.attacker)
            await #expect(throws: login(.invalidResponse)) { try await container.authorize() }
            #expect(wire.summary == Self.discovery)
            #expect(bench.browser.visited.count == pages)
            #expect(try await container.sessionState == .noSession)
        }
    }

    @Test func `a real server names itself, and an attacker's token endpoint gets nothing`()
        async throws
    {
        try await IdentityProcess.with { server in
            let directory = try TemporaryDirectory()
            let store = try await RecordStore(directory: directory.path)
            let records = try RecordContainer(
                store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
            func container(_ endpoint: String, _ transport: any HTTPTransport) throws -> Container {
                try Container(
                    ContainerConfiguration(endpoint: endpoint, clientID: server.clientID),
                    records: records,
                    presence: ScriptedPresence([]), browser: FormBrowser(server.users[0]),
                    transport: transport)
            }
            for announces in [true, false] {
                let wire = RecordingTransport([
                    Self.document(
                        page: server.endpoint + "/oauth2/authorize", announcesIssuer: announces)
                ])
                let misled = try container(Self.attacker, wire)
                let error = await #expect(throws: LoginError.self) { try await misled.authorize() }
                #expect(error?.code == .invalidResponse)
                #expect(
                    error?.reason.contains(server.endpoint) == true, "\(String(describing: error))")
                #expect(wire.summary == Self.discovery)
            }
            try await container(server.endpoint, CurlTransport()).authorize()
        }
    }

    @Test(
        arguments: [
            "authorization_endpoint", "token_endpoint", "userinfo_endpoint", "revocation_endpoint",
            "biometric_removal_endpoint",
        ])
    func `an endpoint at another origin gets nothing unless the configuration lists the origin`(
        endpoint: String
    ) async throws {
        try await Bench.with { bench in
            let path = endpoint == "authorization_endpoint" ? "/oauth2/authorize" : "/elsewhere"
            await bench.identity.set { $0.discovery = [endpoint: "https://tokens.test:443\(path)"] }
            let wire = RecordingTransport(forwardingTo: bench.identity)
            let strict = try await bench.start(transport: wire)
            let error = await #expect(throws: LoginError.self) { try await strict.authorize() }
            #expect(error?.code == .invalidResponse)
            #expect(error?.recovery.hasPrefix("Ask the operator of ") == true)
            #expect(wire.summary == Self.discovery)
            #expect(bench.browser.visited.isEmpty)
            let listing = try await bench.start(additionalOrigins: ["https://tokens.test"])
            // The login fails at that path only, not because of the origin.
            do { try await listing.authorize() } catch let error as LoginError {
                #expect(error.code == .unexpectedStatus)
            }
            #expect(bench.browser.visited.count == 1)
        }
    }

    @Test func `a server that names its issuer may have endpoints at other origins`() async throws {
        try await Bench.with { bench in
            await bench.identity.set {
                $0.announcesIssuer = true
                $0.namedIssuer = FakeIdentity.address
                $0.discovery = ["token_endpoint": "https://tokens.test/oauth2/token"]
            }
            try await bench.start().authorize()
        }
    }

    @Test(arguments: [
        "https://identity.test.evil.test", "https://identity.test:444", "https://evil.test",
    ])
    func `a discovery document of another issuer is refused`(issuer: String) async throws {
        try await Bench.with { bench in
            await bench.identity.set { $0.discovery = ["issuer": issuer] }
            await #expect(throws: login(.invalidResponse)) { try await bench.start().authorize() }
            #expect(bench.browser.visited.isEmpty)
        }
    }
}
