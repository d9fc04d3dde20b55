import Foundation
import HTTPTypes
import Latchkey
import LatchkeyTesting
import Testing

@testable import LatchkeyLogin
@testable import LatchkeyOAuth

/// Logins with a browser on any device (RFC 8628).
struct DeviceGrantTests {
    private static let server = "https://identity.test"
    private static let tokens = #"{"access_token": "a", "token_type": "Bearer"}"#

    private func client(
        _ wire: RecordingTransport, _ members: [String: String] = [:], named: Bool = false,
        origins: Set<String> = []
    ) throws -> OAuthClient<LoginErrorCode> {
        var document: [String: Any] = ["authorization_response_iss_parameter_supported": named]
        for name in ["token_endpoint", "device_authorization_endpoint", "jwks_uri"] {
            document[name] = "\(Self.server)/\(name)"
        }
        document["issuer"] = Self.server
        document.merge(members as [String: Any]) { $1 }
        let metadata = try JSONDecoder().decode(
            ProviderMetadata.self, from: JSONSerialization.data(withJSONObject: document))
        return OAuthClient(
            metadata, clientID: "app", additionalOrigins: origins,
            over: ServerConnection(transport: wire))
    }

    /// The response of a server to a device authorization request, with other members.
    private static func response(_ changes: [String: Any] = [:]) -> RecordingTransport.Step {
        var members: [String: Any] = [
            "device_code": "d", "user_code": "WDJB-MJHT", "verification_uri": "\(server)/device",
            "expires_in": 600,
        ]
        members.merge(changes) { $1 }
        let text = (try? JSONSerialization.data(withJSONObject: members)) ?? Data()
        return .json(String(decoding: text, as: UTF8.self))
    }

    private static func refusal(_ error: String) -> RecordingTransport.Step {
        .json(#"{"error": "\#(error)"}"#, status: .badRequest)
    }

    /// Requests codes, and redeems them.
    private func logIn(
        _ changes: [String: Any] = [:], _ steps: [RecordingTransport.Step],
        clock: LeapingClock = LeapingClock()
    ) async throws -> RecordingTransport {
        let wire = RecordingTransport([Self.response(changes)] + steps)
        let client = try client(wire)
        let authorization = try await client.authorizeDevice(scope: "openid")
        _ = try await client.redeem(authorization, clock: clock)
        return wire
    }

    // MARK: Waiting

    @Test func `the client asks for codes, and redeems the device code`() async throws {
        let wire = try await logIn(
            [:], [Self.refusal("authorization_pending"), .json(Self.tokens)])
        #expect(
            wire.recordings.map(\.text) == [
                "client_id=app&scope=openid",
                "client_id=app&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code=d",
                "client_id=app&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code=d",
            ])
    }

    @Test(
        arguments: [
            (nil, ["authorization_pending", "authorization_pending"], [5, 5, 5]),
            (2, ["authorization_pending"], [2, 2]), (0, ["authorization_pending"], [1, 1]),
            (2, ["slow_down", "authorization_pending", "slow_down"], [2, 7, 7, 12]),
        ] as [(Int?, [String], [Int64])])
    func `the time between requests is the server's, and longer after slow_down`(
        interval: Int?, errors: [String], sleeps: [Int64]
    ) async throws {
        let clock = LeapingClock()
        let changes: [String: Any] = interval.map { ["interval": $0] } ?? [:]
        _ = try await logIn(
            changes, errors.map(Self.refusal) + [.json(Self.tokens)], clock: clock)
        #expect(clock.sleeps == sleeps)
    }

    @Test(arguments: [
        ("access_denied", LoginErrorCode.cancelled), ("authorization_declined", .cancelled),
        ("expired_token", .timedOut),
        ("invalid_grant", .oauthError), ("unauthorized_client", .oauthError),
    ])
    func `another error ends the wait`(error: String, code: LoginErrorCode) async throws {
        await #expect(throws: login(code)) {
            try await logIn([:], [Self.refusal("authorization_pending"), Self.refusal(error)])
        }
    }

    @Test func `an error with the status of a success is an error`() async throws {
        let clock = LeapingClock()
        let body =
            #"{"error": "authorization_pending", "access_token": "a", "token_type": "Bearer"}"#
        _ = try await logIn([:], [.json(body), .json(Self.tokens)], clock: clock)
        #expect(clock.sleeps.count == 2)
    }

    @Test func `no request is sent after the codes have expired`() async throws {
        let clock = LeapingClock()
        let pending = Array(repeating: Self.refusal("authorization_pending"), count: 8)
        await #expect(throws: login(.timedOut)) {
            try await logIn(["expires_in": 20, "interval": 6], pending, clock: clock)
        }
        #expect(clock.sleeps == [6, 6, 6])
    }

    @Test func `requests without a response are repeated more slowly, five times`() async throws {
        let clock = LeapingClock()
        let lost = RecordingTransport.Step.fail(noNetwork)
        _ = try await logIn([:], [lost, lost, .json(Self.tokens)], clock: clock)
        #expect(clock.sleeps == [5, 10, 20])
        await #expect(throws: login(.network)) {
            try await logIn([:], Array(repeating: lost, count: 5))
        }
    }

    @Test(arguments: [429, 500, 502, 503])
    func `an answer of a busy server or of a proxy does not end the wait`(status: Int)
        async throws
    {
        let clock = LeapingClock()
        let busy = RecordingTransport.Step.json("<html>", status: .init(code: status))
        _ = try await logIn(
            [:], [busy, Self.refusal("authorization_pending"), .json(Self.tokens)], clock: clock)
        #expect(clock.sleeps == [5, 10, 10])
        await #expect(throws: login(status == 429 ? .rateLimited : .unexpectedStatus)) {
            try await logIn([:], Array(repeating: busy, count: 5))
        }
    }

    @Test func `a cancelled wait sends no further request`() async throws {
        let clock = LeapingClock(cancelledInSleep: 2)
        await #expect(throws: login(.cancelled)) {
            try await logIn(
                [:], [Self.refusal("authorization_pending"), .json(Self.tokens)], clock: clock)
        }
        #expect(clock.sleeps.count == 2)
    }

    // MARK: Hostile responses

    @Test(arguments: [
        #"{"device_code": null}"#, #"{"device_code": ""}"#, #"{"device_code": "a b"}"#,
        #"{"device_code": 7}"#, #"{"user_code": null}"#, #"{"user_code": ""}"#,
        #"{"user_code": "A\nB"}"#, #"{"user_code": "A\u202eB"}"#, #"{"user_code": " "}"#,
        #"{"user_code": "\#(String(repeating: "A", count: 65))"}"#,
        #"{"device_code": "\#(String(repeating: "a", count: 4097))"}"#,
        #"{"verification_uri": null}"#, #"{"verification_uri": "http://evil.test/"}"#,
        #"{"verification_uri": "javascript:alert(1)"}"#, #"{"verification_uri": "file:///etc"}"#,
        #"{"verification_uri": "https://u:p@identity.test/"}"#,
        #"{"verification_uri": "https://identity.test/\u001b[2J"}"#,
        #"{"verification_uri": "https://identity.test/\#(String(repeating: "a", count: 2048))"}"#,
        #"{"verification_uri_complete": "http://evil.test/"}"#,
        #"{"verification_uri_complete": 7}"#, #"{"expires_in": null}"#, #"{"expires_in": 0}"#,
        #"{"expires_in": -5}"#, #"{"expires_in": "soon"}"#, #"{"interval": -1}"#,
        #"{"interval": 301}"#, #"{"interval": 1e300}"#, #"{"interval": "5 s"}"#,
    ])
    func `a response with a value that is out of bounds is refused`(text: String) async throws {
        let changes = try #require(
            JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
        let error = await #expect(throws: LoginError.self) { try await logIn(changes, []) }
        #expect(error?.code == .invalidResponse)
        let name = try #require(changes.keys.first)
        #expect(error?.reason.contains("‘\(name)’ is missing or has an invalid value") == true)
    }

    /// Google's answer has another name for the page, and an empty member for an absent one.
    @Test func `a page by its earlier name is read`() async throws {
        let page = "https://identity.test/device"
        _ = try await logIn(
            [
                "verification_uri": NSNull(), "verification_url": page,
                "verification_uri_complete": "",
            ], [.json(Self.tokens)])
    }

    @Test func `numbers can be text`() async throws {
        let clock = LeapingClock()
        _ = try await logIn(
            ["expires_in": "600", "interval": "7"], [.json(Self.tokens)], clock: clock)
        #expect(clock.sleeps == [7])
    }

    @Test(arguments: [("1e300", 1800), ("86400", 1800), ("1800", 1800), ("61.5", 61)])
    func `a long lifetime is cut`(stated: String, seconds: Int64) async throws {
        let body = """
            {"device_code": "d", "user_code": "ÄB 12", "verification_uri": "http://127.0.0.1:1/device",
             "verification_uri_complete": "https://a.test/d?user_code=x", "expires_in": \(stated)}
            """
        let client = try client(
            RecordingTransport([.json(body)]),
            origins: ["http://127.0.0.1:1", "https://a.test"])
        let authorization = try await client.authorizeDevice(scope: "openid")
        #expect(authorization.lifetime.components.seconds == seconds)
        #expect(authorization.userCode == "ÄB 12")
        #expect(authorization.pageWithCode?.text == "https://a.test/d?user_code=x")
    }

    @Test func `a server without the endpoint is named, with another way as the next step`()
        async throws
    {
        let wire = RecordingTransport()
        let document =
            #"{"issuer": "https://a.test", "token_endpoint": "https://a.test/t", "jwks_uri": "https://a.test/k"}"#
        let metadata = try JSONDecoder().decode(ProviderMetadata.self, from: Data(document.utf8))
        let client = OAuthClient<LoginErrorCode>(
            metadata, clientID: "app", over: ServerConnection(transport: wire))
        let error = await #expect(throws: LoginError.self) {
            try await client.authorizeDevice(scope: "openid")
        }
        #expect(error?.code == .unsupported)
        #expect(error?.reason.contains("device_authorization_endpoint") == true)
        #expect(error?.recoveryAction.actions == [.forwardLogin])
    }

    /// An attacker's server that names an honest server's endpoint for codes gets no tokens of it,
    /// also if it announces that its authorization responses name their issuer.
    @Test(
        arguments: ["device_authorization_endpoint", "token_endpoint"], [true, false])
    func `an endpoint at another origin gets nothing unless the configuration lists the origin`(
        endpoint: String, named: Bool
    ) async throws {
        let wire = RecordingTransport([Self.response()])
        let foreign = [endpoint: "https://honest.test/\(endpoint)"]
        await #expect(throws: login(.invalidResponse)) {
            try await client(wire, foreign, named: named).authorizeDevice(scope: "openid")
        }
        #expect(wire.recordings.isEmpty)
        let listing = try client(
            wire, foreign, named: named, origins: ["https://honest.test"])
        _ = try await listing.authorizeDevice(scope: "openid")
        #expect(wire.recordings.count == 1)
    }

    /// An attacker's server that has requested a code at an honest server does not get the user to
    /// enter it there.
    @Test(arguments: ["verification_uri", "verification_uri_complete"], [true, false])
    func `a page at another origin is refused unless the configuration lists the origin`(
        member: String, named: Bool
    ) async throws {
        let response = Self.response([member: "https://honest.test/device?user_code=x"])
        await #expect(throws: login(.invalidResponse)) {
            try await client(RecordingTransport([response]), named: named)
                .authorizeDevice(scope: "openid")
        }
        let listing = try client(
            RecordingTransport([response]), named: named, origins: ["https://honest.test"])
        _ = try await listing.authorizeDevice(scope: "openid")
    }
}
