import Crypto
import Foundation
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Attestation, activation over HTTP") struct AttestationActivationTests {
    private static let path = "/attestation/activation"

    private func begin(
        _ server: TestServer, _ tpm: TestTPM, bearer: String
    ) async throws -> (id: String, secret: String) {
        let begun = try await server.post(Self.path, json: tpm.activationBody, bearer: bearer)
        try #require(begun.status == 201, "\(begun.body)")
        return (
            try #require(try begun.json["id"]?.string),
            Base64URL.encode(try tpm.secret(of: begun.json))
        )
    }

    private func finish(
        _ server: TestServer, _ id: String, _ secret: String, bearer: String
    ) async throws -> Answer {
        try await server.post(
            "\(Self.path)/\(id)", json: #"{"secret":"\#(secret)"}"#, bearer: bearer)
    }

    @Test func `a client that opens the challenge gets a certificate, once`() async throws {
        try await TestServer.runAttested { server, tpm in
            let document = try await server.send(.get, "/.well-known/openid-configuration")
                .success()
            #expect(document["attestation_endpoint"] == .string(server.origin + "/attestation"))
            #expect(document["attestation_formats_supported"] == ["tpm"])
            #expect(document["attestation_required"] == "none")

            let bearer = try await server.login().access
            let begun = try await server.post(Self.path, json: tpm.activationBody, bearer: bearer)
            #expect(begun.status == 201)
            #expect(
                try begun.json.object?.keys.sorted() == [
                    "credential_blob", "encrypted_secret", "expires_at", "id",
                ])
            #expect(
                try begun.json["expires_at"]?.string
                    == server.time.now.addingTimeInterval(60).formatted(.iso8601))
            #expect(begun.headers[.cacheControl] == "no-store")

            let (id, secret) = try await begin(server, tpm, bearer: bearer)
            let answer = try await finish(server, id, secret, bearer: bearer)
            let chain = try #require(try answer.success()["x5c"]?.array)
            #expect(chain.count == 2)
            try await finish(server, id, secret, bearer: bearer).expectForged()
        }
    }

    @Test func `the authority survives a restart`() async throws {
        let tpm = TestTPM()
        try await TemporaryDirectory.withDirectory { directory in
            var configuration = TestServer.configuration
            configuration.attestation = AttestationConfiguration()
            configuration.attestation?.anchors = try tpm.anchors(in: directory)
            let database = try await TestDatabase.open()
            var issuers: [Data] = []
            for _ in 1...2 {
                let services = try await IdentityServices(
                    configuration, database: database,
                    hasher: PasswordHasher(logRounds: 4),
                    signingKeyCipher: TestDatabase.cipher())
                let authority = try #require(services.attestation).authority
                let (challenge, pending) = try authority.challenge(
                    endorsement: [tpm.endorsement], attestationKey: tpm.attestationArea)
                let secret = try tpm.secret(of: [
                    "credential_blob": .string(Base64URL.encode(challenge.credentialBlob)),
                    "encrypted_secret": .string(Base64URL.encode(challenge.encryptedSecret)),
                ])
                issuers.append(try authority.certificate(for: pending, secret: secret)[1])
            }
            #expect(issuers[0] == issuers[1])
        }
    }

    @Test func `a wrong secret uses the activation up, and 60 seconds end it`() async throws {
        try await TestServer.runAttested { server, tpm in
            let bearer = try await server.login().access
            let (id, secret) = try await begin(server, tpm, bearer: bearer)
            try await finish(server, id, Base64URL.encode(Data(count: 32)), bearer: bearer)
                .expectForged()
            try await finish(server, id, secret, bearer: bearer).expectForged()
            let late = try await begin(server, tpm, bearer: bearer)
            server.time.advance(by: 60)
            try await finish(server, late.id, late.secret, bearer: bearer).expectForged()
            try await finish(server, "unknown", secret, bearer: bearer).expectForged()
        }
    }

    @Test func `another user cannot finish or use up an activation`() async throws {
        try await TestServer.runAttested { server, tpm in
            let (alice, bob) = (
                try await server.login("alice").access, try await server.login("bob").access
            )
            let (id, secret) = try await begin(server, tpm, bearer: alice)
            try await finish(server, id, secret, bearer: bob).expectForged()
            try await finish(server, id, secret, bearer: alice).success()
        }
    }

    @Test func `a fifth activation of a user replaces the oldest`() async throws {
        try await TestServer.runAttested { server, tpm in
            let bearer = try await server.login().access
            var begun: [(id: String, secret: String)] = []
            for _ in 1...5 { begun.append(try await begin(server, tpm, bearer: bearer)) }
            try await finish(server, begun[0].id, begun[0].secret, bearer: bearer).expectForged()
            for (id, secret) in begun.dropFirst() {
                try await finish(server, id, secret, bearer: bearer).success()
            }
        }
    }

    @Test func `a session with full access is required`() async throws {
        try await TestServer.runAttested { server, tpm in
            for path in [Self.path, Self.path + "/x"] {
                let answer = try await server.post(path, json: tpm.activationBody)
                #expect(answer.status == 401)
                #expect(try answer.json["error"] == "invalid_token")
                let narrow = try await server.login(scope: "openid").access
                let refused = try await server.post(path, json: tpm.activationBody, bearer: narrow)
                #expect(refused.status == 403)
                #expect(try refused.json["error"] == "insufficient_scope")
            }
        }
    }

    @Test func `other bodies are refused`() async throws {
        try await TestServer.runAttested { server, tpm in
            let bearer = try await server.login().access
            for body in [
                "{}", "[]", "", #"{"ek_certificates":[]}"#,
                #"{"ek_certificates":[],"attestation_key":1}"#,
                #"{"ek_certificates":"AA","attestation_key":"AA"}"#,
                #"{"ek_certificates":["="],"attestation_key":"AA"}"#,
                #"{"ek_certificates":[1],"attestation_key":"AA"}"#,
            ] {
                let answer = try await server.post(Self.path, json: body, bearer: bearer)
                #expect(answer.status == 400)
                #expect(try answer.json["error"] == "invalid_request", "\(body)")
            }
            for body in ["{}", #"{"secret":1}"#, #"{"secret":"="}"#] {
                let answer = try await server.post(Self.path + "/x", json: body, bearer: bearer)
                #expect(answer.status == 400)
                #expect(try answer.json["error"] == "invalid_request", "\(body)")
            }
        }
    }

    @Test func `requests above the limits are refused`() async throws {
        try await TestServer.runAttested { server, tpm in
            let bearer = try await server.login().access
            func begin(_ certificates: [Data]) async throws -> Answer {
                let list = certificates.map { "\"\(Base64URL.encode($0))\"" }.joined(separator: ",")
                let area = Base64URL.encode(tpm.attestationArea)
                return try await server.post(
                    Self.path,
                    json: #"{"ek_certificates":[\#(list)],"attestation_key":"\#(area)"}"#,
                    bearer: bearer)
            }
            // Four certificates of 4096 bytes, padding included.
            let own = try tpm.endorsement
            let longest = own + Data(repeating: 0xff, count: 4096 - own.count)
            #expect(try await begin([Data](repeating: longest, count: 4)).status == 201)
            try await begin([longest + [0xff]]).expectForged()
            #expect(try await begin([Data](repeating: longest, count: 8)).status == 201)
            try await begin([Data](repeating: longest, count: 9)).expectForged()
            // A body of 64 KiB.
            let body = try tpm.activationBody
            let padding = String(repeating: " ", count: 65_536 - body.utf8.count)
            #expect(
                try await server.post(Self.path, json: body + padding, bearer: bearer).status == 201
            )
            #expect(
                try await server.post(Self.path, json: body + padding + " ", bearer: bearer).status
                    == 413)
            // 512 separators: each of these values has one.
            func complex(_ count: Int) -> String {
                #"{"secret":["# + String(repeating: "0,", count: count - 3) + "0]}"
            }
            for (count, message) in [
                (512, "'secret' has the wrong type"), (513, "the JSON has too many values"),
            ] {
                try await server.post(Self.path + "/x", json: complex(count), bearer: bearer)
                    .expectRefusal(400, "invalid_request", "invalid request body: " + message)
            }
        }
    }

    @Test func `a server without attestation announces nothing and has no endpoint`() async throws {
        try await TestServer.run { server in
            let tpm = TestTPM()
            let document = try await server.send(.get, "/.well-known/openid-configuration")
                .success()
            #expect(document.object?.keys.contains { $0.hasPrefix("attestation") } == false)
            let bearer = try await server.login().access
            #expect(
                try await server.post(Self.path, json: tpm.activationBody, bearer: bearer).status
                    == 404)
            #expect(
                try await server.post(Self.path + "/x", json: "{}", bearer: bearer).status == 404)
        }
    }
}
