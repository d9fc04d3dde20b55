import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The checks of a session's user, client, kind and age.
@Suite("Locker, sessions") struct LockerSessionTests {
    private static let bearerActions = ["enrol", "easy-access-enable", "level-shares"]

    @Test func `a request without a session is refused`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let expired = try await server.login().access
            server.time.advance(by: 1_800)
            for bearer in [nil, "unknown", expired] {
                var answers: [Answer] = []
                for action in Self.bearerActions {
                    answers.append(try await server.perform(action, device, bearer: bearer))
                }
                answers.append(try await server.disableEasyAccess(device.id, bearer: bearer))
                for answer in answers {
                    let description = "the access token is unknown or has expired"
                    try answer.expectRefusal(401, "invalid_token", description)
                    #expect(
                        answer.headers[.wwwAuthenticate]
                            == (bearer == nil
                                ? "Bearer realm=\"latchkey-identity\""
                                : "Bearer error=\"invalid_token\", error_description=\"\(description)\"")
                    )
                }
            }
            try await server.easyAccess(device).success()
        }
    }

    @Test func `a session without full access is refused and does not use the challenge`()
        async throws
    {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let narrow = try await server.login(scope: "openid offline_access").access
            for action in Self.bearerActions {
                let assertion = try await server.assertion(
                    action, by: device.signer(of: action), of: action == "enrol" ? nil : device.id)
                try await server.send(assertion, as: action, to: device, bearer: narrow)
                    .expectRefusal(
                        403, "insufficient_scope",
                        "the access token needs the scope https://authgear.com/scopes/full-access")
                let answer = try await server.send(
                    assertion, as: action, to: device, bearer: device.tokens.access)
                #expect((200...204).contains(answer.status))
            }
        }
    }

    @Test func `another user's session is refused`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice("alice")
            let bob = try await server.login("bob").access
            let description = "the access token and the enrolment belong to different users"
            for action in ["easy-access-enable", "level-shares"] {
                try await server.perform(action, device, bearer: bob).expectRefusal(
                    401, "invalid_token", description)
            }
            try await server.disableEasyAccess(device.id, bearer: bob).expectRefusal(
                401, "invalid_token", description)
            try await server.easyAccess(device).success()
        }
    }

    @Test func `an enrolment belongs to its client`() async throws {
        try await TestServer.run {
            $0.clients.append(
                ClientConfiguration(id: "other", redirectURIs: ["http://127.0.0.1/callback"]))
        } body: { server in
            let device = try await server.enrolledDevice()
            let description = "the enrolment belongs to another client"
            try await server.easyAccess(device, client: "other")
                .expectRefusal(400, "unauthorized_client", description)
            try await server.backgroundAccess(device, client: "other")
                .expectRefusal(400, "unauthorized_client", description)
            let request = AuthorizationParameters(more: ["client_id": "other"])
            let code = try #require(
                try await TestBrowser(server: server).login(request, username: "alice")
                    .redirectParameter("code"))
            let tokens = try Tokens(
                await server.exchange(code: code, request, overriding: ["client_id": "other"])
                    .success())
            for action in ["easy-access-enable", "level-shares"] {
                try await server.perform(action, device, bearer: tokens.access)
                    .expectRefusal(400, "unauthorized_client", description)
            }
            try await server.disableEasyAccess(device.id, bearer: tokens.access)
                .expectRefusal(400, "unauthorized_client", description)
            try await server.easyAccess(device).success()
        }
    }

    @Test(arguments: ["enrol", "easy-access-enable"])
    func `strong authentication is valid for 300 seconds, and a refresh does not renew it`(
        action: String
    ) async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            server.time.advance(by: 300)
            #expect(
                (201...204).contains(
                    try await server.perform(action, device, bearer: device.tokens.access).status))
            server.time.advance(by: 1)
            let refreshed = try Tokens(
                await server.refresh(#require(device.tokens.refresh)).success())
            #expect(try refreshed.claims["auth_time"] == device.tokens.claims["auth_time"])
            for bearer in [device.tokens.access, refreshed.access] {
                let answer = try await server.perform(action, device, bearer: bearer)
                try answer.expectStrongAuthenticationWanted()
                #expect(
                    answer.headers[.wwwAuthenticate] == """
                        Bearer error="insufficient_user_authentication", \
                        error_description="the user has to be authenticated again", max_age="300"
                        """)
            }
            // Level shares do not require a fresh one.
            try await server.levelShares(device, bearer: refreshed.access).success()
        }
    }

    @Test func `each login in the browser makes authentication fresh`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            for more in [[:], ["prompt": "login"], ["max_age": "300"], ["max_age": "0"]] {
                server.time.advance(by: 301)
                try await server.perform("enrol", device, bearer: device.tokens.access)
                    .expectStrongAuthenticationWanted()
                let request = AuthorizationParameters(more: more)
                let again = try await TestBrowser(server: server).login(request, username: "alice")
                let fresh = try Tokens(
                    await server.exchange(code: #require(again.redirectParameter("code")), request)
                        .success())
                #expect(try fresh.claims["auth_time"]?.number == Double(server.time.seconds))
                #expect(
                    try await server.perform("enrol", device, bearer: fresh.access).status == 201)
            }
        }
    }

    @Test func `biometric login is not strong authentication`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let phone = TestDevice()
            try await server.setUp(phone, bearer: device.tokens.access).success()
            let session = try Tokens(await server.authenticate(phone).success())
            for action in Self.bearerActions {
                try await server.perform(action, device, bearer: session.access)
                    .expectStrongAuthenticationWanted()
            }
        }
    }

    @Test func `easy access of another device releases no shares`() async throws {
        try await TestServer.run { server in
            let (device, other) = (
                try await server.enrolledDevice(), try await server.enrolledDevice()
            )
            let session = try Tokens(await server.easyAccess(other).success())
            try await server.levelShares(device, bearer: session.access)
                .expectStrongAuthenticationWanted()
            try await server.levelShares(other, bearer: session.access).success()
        }
    }
}
