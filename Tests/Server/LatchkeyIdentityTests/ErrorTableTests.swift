import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The errors of the biometric grant over HTTP, in the order in which deployed Authgear servers
/// check them.
@Suite("Biometric grant, error table") struct ErrorTableTests {
    @Test func `row 2: unknown client`() async throws {
        try await TestServer.run { server in
            try await server.biometric("", client: "nobody").expectRefusal(
                400, "invalid_client", "invalid client ID")
        }
    }

    @Test func `row 3: no jwt`() async throws {
        try await TestServer.run { server in
            try await server.biometric("").expectRefusal(400, "invalid_request", "jwt is required")
        }
    }

    @Test func `row 5: no biometric login, before row 7`() async throws {
        try await TestServer.run {
            $0.identity.biometric.disabled = true
        } body: { server in
            try await server.biometric("x")
                .expectRefusal(400, "invalid_request", "biometric authentication is disabled")
        }
    }

    @Test func `row 7: an invalid jwt`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            let good = try device.setup(challenge: "x", now: server.time.seconds)
            let malformedKey = try device.setup(
                challenge: "x", now: server.time.seconds,
                header: ["jwk": .object(["kty": .string("EC")])])
            let oddTime = try device.setup(
                challenge: "x", now: server.time.seconds, payload: ["exp": .string("soon")])
            let long = String(repeating: "a", count: 16_384 + 1)
            for jwt in [
                "x", "a.b", good + ".more", String(good.dropLast(90)) + "=", "e30.W10.",
                malformedKey, oddTime, long,
            ] {
                let answer = try await server.biometric(jwt)
                #expect(answer.status == 400)
                #expect(try answer.json["error"] == .string("invalid_request"), "\(jwt.prefix(20))")
                #expect(
                    try answer.json["error_description"]?.string?.hasPrefix("invalid J") == true)
            }
        }
    }

    @Test func `row 8: another action, before row 9`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            let other = try device.setup(
                challenge: "x", now: 0, payload: ["action": .string("promote")])
            try await server.biometric(other).expectRefusal(
                400, "invalid_request", "invalid action: promote")
            let none = try device.setup(challenge: "x", now: 0, payload: ["action": .null])
            try await server.biometric(none).expectRefusal(
                400, "invalid_request", "invalid action: <nil>")
        }
    }

    @Test func `row 9: setup without a session`() async throws {
        try await TestServer.run { server in
            let jwt = try TestDevice().setup(challenge: "x", now: server.time.seconds)
            for bearer in [nil, "unknown"] {
                let answer = try await server.biometric(jwt, bearer: bearer)
                try answer.expectRefusal(
                    401, "invalid_grant", "biometric setup requires authenticated user")
                #expect(
                    answer.headers[.wwwAuthenticate]?.hasPrefix(
                        bearer == nil ? "Bearer realm=" : "Bearer error=\"invalid_token\"") == true)
            }
        }
    }

    @Test(arguments: Unacceptable.allCases)
    func `row 12: an unacceptable request does not use its challenge`(flaw: Unacceptable)
        async throws
    {
        try await TestServer.run { server in
            let bearer = try await server.login().access
            let device = TestDevice()
            let challenge = try await server.challenge()
            let flawed = try flaw.request(device, challenge: challenge, now: server.time.seconds)
            try await server.biometric(flawed, bearer: bearer)
                .expectRefusal(400, "invalid_grant", "InvalidCredentials")
            try await server.biometric(
                device.setup(challenge: challenge, now: server.time.seconds), bearer: bearer
            ).success()
        }
    }

    @Test func `row 13: a challenge that is unknown, used, expired or for another purpose`()
        async throws
    {
        try await TestServer.run { server in
            let bearer = try await server.login().access
            let used = try await server.challenge()
            try await server.biometric(
                TestDevice().setup(challenge: used, now: server.time.seconds), bearer: bearer
            ).success()
            let other = try await server.challenge("anonymous_request")
            let expired = try await server.challenge()
            server.time.advance(by: 300)
            for challenge in ["0123456789ABCDEFGHJKMNPQRSTVWXYZ", "", used, other, expired] {
                try await server.biometric(
                    TestDevice().setup(challenge: challenge, now: server.time.seconds),
                    bearer: bearer
                ).expectRefusal(400, "invalid_grant", "InvalidCredentials")
            }
        }
    }

    @Test(arguments: [
        ["device_info": JSONValue.null], ["device_info": .object([:])],
        ["device_info": .object(["linux": .object(["machine": .string("x")])])],
        ["device_info": .object(["ios": .object(["uname": .object(["machine": .string("")])])])],
    ])
    func `row 14: setup without a model uses the challenge`(payload: [String: JSONValue])
        async throws
    {
        try await TestServer.run { server in
            let bearer = try await server.login().access
            let device = TestDevice()
            let challenge = try await server.challenge()
            let now = server.time.seconds
            try await server.biometric(
                device.setup(challenge: challenge, now: now, payload: payload), bearer: bearer
            )
            .expectRefusal(400, "invalid_grant", "InvalidCredentials")
            try await server.biometric(device.setup(challenge: challenge, now: now), bearer: bearer)
                .expectRefusal(400, "invalid_grant", "InvalidCredentials")
        }
    }

    @Test func `row 14: setup without a key`() async throws {
        try await TestServer.run { server in
            let bearer = try await server.login().access
            let jwt = try TestDevice().setup(
                challenge: await server.challenge(), now: server.time.seconds,
                header: ["jwk": .null])
            try await server.biometric(jwt, bearer: bearer).expectRefusal(
                400, "invalid_grant", "InvalidCredentials")
        }
    }

    @Test func `row 15: a key that is not registered`() async throws {
        try await TestServer.run { server in
            try await server.authenticate(TestDevice()).expectRefusal(
                400, "invalid_grant", "InvalidCredentials")
        }
    }

    @Test func `row 16: a signature by another key, and a header that names another`() async throws
    {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            var impostor = TestDevice()
            impostor.kid = device.kid
            try await server.authenticate(impostor).expectRefusal(
                400, "invalid_grant", "InvalidCredentials")

            // The embedded key has the registered name, the header another one: the server looks up
            // the former.
            let mismatch = try device.authentication(
                challenge: await server.challenge(), now: server.time.seconds,
                header: ["jwk": .object(device.jwk), "kid": .string("another-kid")])
            try await server.biometric(mismatch).expectRefusal(
                400, "invalid_grant", "InvalidCredentials")
        }
    }

    @Test(arguments: ["alice", "bob"])
    func `row 18: setup with a kid that is taken`(second: String) async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login("alice").access).success()
            try await server.setUp(device, bearer: server.login(second).access)
                .expectRefusal(400, "invalid_grant", "InvalidCredentials")
            #expect(try await server.services.devices.devices(of: server.alice.id).count == 1)
            #expect(try await server.services.devices.devices(of: server.bob.id).isEmpty)
        }
    }

    @Test func `row 21: scopes`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            try await server.authenticate(device, overriding: ["scope": "offline_access"])
                .expectRefusal(400, "invalid_scope", "must request 'openid' scope")
            try await server.authenticate(device, overriding: ["scope": "openid offline_access"])
                .expectRefusal(
                    400, "invalid_scope", "offline_access and full-access must be requested")
            try await server.authenticate(device, overriding: ["scope": "openid world"])
                .expectRefusal(400, "invalid_scope", "specified scope is not allowed: world")
            // The default is the three scopes that an SDK requests.
            let tokens = try Tokens(
                await server.authenticate(device, overriding: ["scope": ""]).success())
            #expect(tokens.refresh != nil)
        }
    }

    /// A flaw that makes a set-up request unacceptable.
    enum Unacceptable: CaseIterable, Sendable {
        case issuedLater, expired, notYet, wrongType, noType, shortKeyID, longKeyID, oddKeyID,
            noKeyID
        case privateMember, symmetricKey, otherCurve, offCurve, weakRSA, wrongAlgorithm,
            forEncryption

        func request(_ device: TestDevice, challenge: String, now: Int) throws -> String {
            var header: [String: JSONValue] = [:]
            var payload: [String: JSONValue] = [:]
            var jwk = try device.jwk
            switch self {
            case .issuedLater: payload["iat"] = .number(Double(now + 301))
            case .expired: payload["exp"] = .number(Double(now - 300))
            case .notYet: payload["nbf"] = .number(Double(now + 301))
            case .wrongType: header["typ"] = .string("vnd.authgear.anonymous-request")
            case .noType: header["typ"] = .null
            case .shortKeyID: jwk["kid"] = .string(String(repeating: "k", count: 7))
            case .longKeyID: jwk["kid"] = .string(String(repeating: "k", count: 65))
            case .oddKeyID: jwk["kid"] = .string("key.with.dots")
            case .noKeyID: jwk["kid"] = nil
            case .privateMember: jwk["d"] = .string("AAAA")
            case .symmetricKey:
                jwk = ["kty": .string("oct"), "kid": .string(device.kid), "k": .string("AAAA")]
            case .otherCurve: jwk["crv"] = .string("secp256k1")
            case .offCurve: jwk["x"] = jwk["y"]
            case .weakRSA:
                jwk = [
                    "kty": .string("RSA"), "kid": .string(device.kid), "e": .string("AQAB"),
                    "n": .string(Base64URL.encode(Data(repeating: 0xff, count: 128))),
                ]
            case .wrongAlgorithm: jwk["alg"] = .string("HS256")
            case .forEncryption: jwk["use"] = .string("enc")
            }
            header["jwk"] = .object(jwk)
            return try device.setup(
                challenge: challenge, now: now, header: header, payload: payload)
        }
    }
}
