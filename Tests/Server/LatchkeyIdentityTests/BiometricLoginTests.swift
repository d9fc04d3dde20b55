import Crypto
import CryptoExtras
import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import Testing

@testable import latchkey_identity

@Suite("Biometric login") struct BiometricLoginTests {
    @Test
    func
        `setup answers 200 with an empty body, authentication answers with tokens of the same user`()
        async throws
    {
        try await TestServer.run { server in
            let device = TestDevice()
            let session = try await server.login()
            let setup = try await server.setUp(device, bearer: session.access)
            #expect(setup.status == 200 && setup.body.isEmpty)
            #expect(setup.headers[.contentType] == nil)
            #expect(setup.headers[.cacheControl] == "no-store")

            let tokens = try Tokens(await server.authenticate(device).success())
            let claims = try tokens.claims
            #expect(claims["sub"] == .string(server.alice.id))
            #expect(claims["iss"] == .string(server.origin))
            #expect(claims["aud"] == .array([.string("app")]))
            #expect(claims["amr"] == .array([.string("x_biometric")]))
            #expect(claims["auth_time"]?.number == Double(server.time.seconds))
            #expect(claims["exp"]?.number == Double(server.time.seconds + 300))
            let sid = try #require(claims["sid"]?.string.flatMap { Base64URL.decode($0) })
            let grant = try #require(tokens.refresh?.split(separator: ".").first)
            #expect(String(decoding: sid, as: UTF8.self) == "offline_grant:\(grant)")
            // A part that all refresh tokens of the session share, and 32 new characters.
            #expect(tokens.refresh?.split(separator: ".").last?.count == 64)
            #expect(
                try await server.userInfo(tokens.access).success()["sub"]
                    == .string(server.alice.id))
        }
    }

    @Test func `the log names the key of a refused request`() async throws {
        let log = RecordedLog()
        let device = TestDevice()
        try await TestServer.run(logger: log.logger) { server in
            try await server.authenticate(device).expectRefusal(
                400, "invalid_grant", "InvalidCredentials")
        }
        let line = log.text.split(separator: "\n").first {
            $0.contains("biometric request refused")
        }
        #expect(line?.contains("unknownDevice") == true, "\(log.text)")
        #expect(line?.contains(device.kid) == true)
    }

    @Test func `a repeated request is refused`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            let jwt = try device.authentication(
                challenge: await server.challenge(), now: server.time.seconds)
            try await server.biometric(jwt).success()
            try await server.biometric(jwt).expectRefusal(
                400, "invalid_grant", "InvalidCredentials")
        }
    }

    @Test func `a wrong signature uses the challenge`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            let challenge = try await server.challenge()
            var impostor = TestDevice()
            impostor.kid = device.kid
            let now = server.time.seconds
            #expect(
                try await server.biometric(impostor.authentication(challenge: challenge, now: now))
                    .status == 400)
            #expect(
                try await server.biometric(device.authentication(challenge: challenge, now: now))
                    .status == 400)
        }
    }

    /// Authgear's limits: a request is valid if now < exp + 300 and now >= iat - 300.
    @Test(arguments: [
        (["exp": -299.0], true), (["exp": -300], false), (["exp": -299.1], false),
        (["iat": 300], true),
        (["iat": 301], false), (["nbf": 300], true), (["nbf": 301], false),
        (["iat": -100_000, "exp": 100_000], true),
    ])
    func `clock skew`(offsets: [String: Double], isAccepted: Bool) async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            let now = server.time.seconds
            let payload = offsets.mapValues { JSONValue.number(Double(now) + $0) }
            let jwt = try device.authentication(
                challenge: await server.challenge(), now: now, payload: payload)
            #expect(try await server.biometric(jwt).status == (isAccepted ? 200 : 400))
        }
    }

    @Test func `a request without times is accepted`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            let jwt = try device.authentication(
                challenge: await server.challenge(), now: 0, payload: ["iat": .null, "exp": .null])
            try await server.biometric(jwt).success()
        }
    }

    @Test(arguments: [8, 64]) func `the shortest and the longest kid are accepted`(length: Int)
        async throws
    {
        try await TestServer.run { server in
            var device = TestDevice()
            device.kid = String("aZ09_-".cycled(to: length))
            try await server.setUp(device, bearer: server.login().access).success()
            try await server.authenticate(device).success()
        }
    }

    @Test func `RS256 of the mobile SDKs works`() async throws {
        try await TestServer.run { server in
            let device = TestDevice(key: .rs256(try _RSA.Signing.PrivateKey(keySize: .bits2048)))
            try await server.setUp(device, bearer: server.login().access).success()
            try await server.authenticate(device).success()
            let confused = try device.authentication(
                challenge: await server.challenge(), now: server.time.seconds,
                header: ["alg": .string("ES256")])
            #expect(try await server.biometric(confused).status == 400)
        }
    }

    @Test(arguments: ["none", "HS256", "RS256", ""])
    func `a header with another algorithm is refused`(name: String)
        async throws
    {
        try await TestServer.run { server in
            let device = TestDevice()
            let bearer = try await server.login().access
            try await server.setUp(device, bearer: bearer).success()
            let jwt = try device.authentication(
                challenge: await server.challenge(), now: server.time.seconds,
                header: ["alg": .string(name)])
            try await server.biometric(jwt).expectRefusal(
                400, "invalid_grant", "InvalidCredentials")
            let setup = try TestDevice().setup(
                challenge: await server.challenge(), now: server.time.seconds,
                header: ["alg": .string(name)])
            try await server.biometric(setup, bearer: bearer).expectRefusal(
                400, "invalid_grant", "InvalidCredentials")
        }
    }

    @Test func `a signature in DER is refused`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            let jwt = try device.authentication(
                challenge: await server.challenge(), now: server.time.seconds)
            let parts = try ReceivedJWS(jwt)
            let der = try #require(ECDSASignature(rawRepresentation: parts.signature))
                .derRepresentation
            try await server.biometric("\(parts.signingInput).\(Base64URL.encode(der))")
                .expectRefusal(400, "invalid_grant", "InvalidCredentials")
        }
    }

    /// Deployed Authgear servers store a key without proof; this server requires its signature.
    @Test func `setup with another device's public key is refused`() async throws {
        try await TestServer.run { server in
            let bearer = try await server.login().access
            let owner = TestDevice()
            let claimant = TestDevice(kid: owner.kid)
            let jwt = try claimant.setup(
                challenge: await server.challenge(), now: server.time.seconds,
                header: ["jwk": .object(owner.jwk)])
            try await server.biometric(jwt, bearer: bearer).expectRefusal(
                400, "invalid_grant", "InvalidCredentials")
        }
    }

    @Test func `a second authentication ends the first session, and no other`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            let web = try await server.login()
            try await server.setUp(device, bearer: web.access).success()
            let first = try Tokens(await server.authenticate(device).success())
            let second = try Tokens(await server.authenticate(device).success())
            try await server.refresh(#require(first.refresh))
                .expectRefusal(400, "invalid_grant", "invalid refresh token")
            #expect(try await server.userInfo(first.access).status == 401)
            try await server.refresh(#require(second.refresh)).success()
            try await server.refresh(#require(web.refresh)).success()
        }
    }

    @Test func `two users' devices don't mix`() async throws {
        try await TestServer.run { server in
            let (hers, his) = (TestDevice(), TestDevice())
            try await server.setUp(hers, bearer: server.login("alice").access).success()
            try await server.setUp(his, bearer: server.login("bob").access).success()
            #expect(
                try Tokens(await server.authenticate(hers).success()).claims["sub"]
                    == .string(server.alice.id))
            #expect(
                try Tokens(await server.authenticate(his).success()).claims["sub"]
                    == .string(server.bob.id))
        }
    }

    @Test func `the challenge endpoint reports what is wrong with a request`() async throws {
        try await TestServer.run { server in
            let unknown = try await server.post("/oauth2/challenge", json: #"{"purpose":"foobar"}"#)
            #expect(unknown.status == 400)
            #expect(try unknown.json["error"]?["reason"] == .string("ValidationFailed"))
            #expect(unknown.body.contains("‘purpose’ has an unknown value"))
            let missing = try await server.post("/oauth2/challenge", json: "{}")
            #expect(missing.status == 400 && missing.body.contains("‘purpose’ is missing"))
            try await server.post(
                "/oauth2/challenge", json: #"{"purpose":"biometric_request","x":1}"#
            ).success()
            #expect(try await server.post("/oauth2/challenge", json: "[]").status == 400)
            let type = try await server.post("/oauth2/challenge", json: "{}", type: "text/plain")
            #expect(
                try type.json["error"]?["message"]
                    == "invalid request body: the content type is not application/json")
            try await server.post(
                "/oauth2/challenge", json: #"{"purpose":"app2app_request"}"#,
                type: "application/json; charset=UTF-8"
            ).success()
            let token = try await server.challenge()
            #expect(token.wholeMatch(of: /[0-9A-HJKMNP-TV-Z]{32}/) != nil)
        }
    }

    @Test func `a request that is too long is refused`() async throws {
        try await TestServer.run { server in
            let answer = try await server.post(
                "/oauth2/token", form: ["jwt": String(repeating: "a", count: 70_000)])
            #expect(answer.status == 413)
        }
    }
}

extension String {
    fileprivate func cycled(to length: Int) -> [Character] {
        (0..<length).map { Array(self)[$0 % count] }
    }
}
