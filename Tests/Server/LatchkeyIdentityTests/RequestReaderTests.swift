import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// Requests that two programs could read in different ways, or whose extensions the server does not
/// support. All are signed by the right key, and valid apart from the added members.
@Suite("JOSE and JSON of requests") struct RequestReaderTests {
    private static let headers = [
        #""crit":["exp"]"#, #""crit":["b64"],"b64":false"#, #""b64":false"#, #""crit":[]"#,
        #""alg":"none""#, #""\u0061lg":"none""#, #""kid":"another-name""#, #""typ":"x""#,
        #""jwk":{"kty":"EC","kty":"RSA"}"#, #""x":[{"y":{"z":1,"\u007a":2}}]"#,
    ]
    private static let payloads = [
        #""aud":"https://other.example""#, #""\u0061ud":"https://other.example""#,
        #""action":"authenticate""#, #""challenge":"0123456789ABCDEFGHJKMNPQRSTVWXYZ""#,
        #""iat":1"#, #""x":1,"x":1"#, #""x":{"y":[{"z":1,"z":1}]}"#,
    ]

    /// The text to sign, with added members at the end of the header and the payload.
    private static func input(
        _ jwt: String, header: String? = nil, payload: String? = nil
    ) throws -> String {
        let jws = try ReceivedJWS(jwt)
        func adding(_ more: String?, to json: Data) -> String {
            let text = String(decoding: json, as: UTF8.self)
            return Base64URL.encode(Data((more.map { text.dropLast() + ",\($0)}" } ?? text).utf8))
        }
        return adding(header, to: jws.headerJSON) + "." + adding(payload, to: jws.payloadJSON)
    }

    private static var additions: [(header: String?, payload: String?)] {
        headers.map { ($0, nil) } + payloads.map { (nil, $0) }
    }

    @Test func `biometric requests are refused before their challenge is used`() async throws {
        try await TestServer.run { server in
            let bearer = try await server.login().access
            let device = TestDevice()
            let now = server.time.seconds
            let first = try await server.challenge()
            let setup = try device.setup(challenge: first, now: now)
            try await server.biometric(setup, bearer: bearer).success()
            let challenge = try await server.challenge()
            let login = try device.authentication(challenge: challenge, now: now)
            for (header, payload) in Self.additions {
                for jwt in [setup, login] {
                    let input = try Self.input(jwt, header: header, payload: payload)
                    let answer = try await server.biometric(
                        input + "." + Base64URL.encode(device.signature(over: input)),
                        bearer: bearer)
                    #expect(answer.status == 400, "\(header ?? payload ?? "")")
                    #expect(try answer.json["error"] == "invalid_request", "\(answer.body)")
                    #expect(
                        try answer.json["error_description"]?.string?.hasPrefix("invalid JWT: the ")
                            == true, "\(answer.body)")
                }
            }
            try await server.biometric(login).success()
        }
    }

    @Test func `locker assertions are refused before their challenge is used`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            for action in TestServer.lockerActions where action != "enrol" {
                let key = device.signer(of: action)
                let assertion = try await server.assertion(action, by: key, of: device.id)
                for (header, payload) in Self.additions {
                    let input = try Self.input(assertion, header: header, payload: payload)
                    try await server.send(
                        input + "." + key.signature(over: input), as: action, to: device,
                        bearer: device.tokens.access
                    ).expectNotAccepted("\(action) \(header ?? payload ?? "")")
                }
                if action == "easy-access" {
                    try await server.send(assertion, as: action, to: device).success()
                }
            }
        }
    }

    @Test func `bodies and form members with repeated names are refused`() async throws {
        try await TestServer.runAttested { server, tpm in
            let bearer = try await server.login().access
            let text = #"{"purpose":"biometric_request","\u0070urpose":"locker_request"}"#
            for (path, body) in [
                ("/oauth2/challenge", text),
                ("/api/identity/biometric/remove", #"{"kid":"12345678","kid":"12345679"}"#),
            ] {
                let answer = try await server.post(path, json: body, bearer: bearer)
                #expect(answer.status == 400, "\(answer.body)")
                #expect(try answer.json["error"]?["reason"] == "ValidationFailed")
                #expect(answer.body.contains("is repeated"), "\(answer.body)")
            }
            for (path, body, name) in [
                (TestServer.lockerPath, #"{"assertion":"a","assertion":"b"}"#, "assertion"),
                (
                    TestServer.lockerPath,
                    #"{"assertion":"a","attestation":{"x":[{"y":1,"y":1}]}}"#,
                    "y"
                ),
                (
                    "/attestation/activation",
                    String(try tpm.activationBody.dropLast()) + #","ek_certificates":[]}"#,
                    "ek_certificates"
                ),
            ] {
                try await server.post(path, json: body, bearer: bearer).expectRefusal(
                    400, "invalid_request", "invalid request body: '\(name)' is repeated")
            }
            let chain = try await tpm.activate(on: server, bearer: bearer)
            let device = TestDevice()
            guard case .es256(let key) = device.key else { return }
            let challenge = try await server.challenge()
            let statement = try tpm.statement(
                .pin, of: key, named: device.kid, challenge: challenge, origin: server.origin,
                certificates: chain)
            try await server.biometric(
                device.setup(challenge: challenge, now: server.time.seconds), bearer: bearer,
                overriding: ["attestation": statement.dropLast() + #","format":"piv"}"#]
            ).expectForged()
        }
    }

    /// An attacker who knows the name of another user's key, and tries to register it.
    @Test func `a taken name and a wrong signature have the same answer`() async throws {
        try await TestServer.run { server in
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login("alice").access).success()
            let bearer = try await server.login("bob").access
            let taken = try await server.setUp(TestDevice(kid: device.kid), bearer: bearer)
            let jwt = try TestDevice().setup(
                challenge: await server.challenge(), now: server.time.seconds)
            let other = try TestDevice().setup(
                challenge: "0123456789ABCDEFGHJKMNPQRSTVWXYZ", now: server.time.seconds)
            let forged = try await server.biometric(
                String(jwt.prefix { $0 != "." } + other.drop { $0 != "." }), bearer: bearer)
            #expect(taken.status == 400 && taken.status == forged.status)
            #expect(taken.body == forged.body)
        }
    }
}
