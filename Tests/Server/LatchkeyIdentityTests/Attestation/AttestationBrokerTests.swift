import Crypto
import Foundation
import Latchkey
import LatchkeyRelyingParty
import TPM2
import Testing

@testable import latchkey_identity

/// The enrolment of presence brokers' approval keys over HTTP.
@Suite("Enrolment of presence brokers") struct AttestationBrokerTests {
    private static let token = "a-token-of-the-servers-operator"
    private static let digest = SHA256.hash(data: Data(token.utf8)).map {
        String(format: "%02x", $0)
    }.joined()

    private func run(
        _ body: @Sendable (TestServer, TestTPM) async throws -> Void
    ) async throws {
        try await TestServer.runAttested { _, attestation, _ in
            attestation.require = "finger"
            attestation.brokerTokenDigest = Self.digest
        } body: { server, tpm in
            try await body(server, tpm)
        }
    }

    private func challenge(_ server: TestServer) async throws -> String {
        let answer = try await server.post(
            "/oauth2/challenge", json: #"{"purpose":"approval_key_request"}"#
        ).success()
        return try #require(answer["result"]?["token"]?.string)
    }

    private func enrol(
        _ server: TestServer, _ tpm: TestTPM, _ certificates: [Data], challenge: String,
        bearer: String = token,
        statementChallenge: String? = nil
    ) async throws -> Answer {
        let statement = try tpm.approvalKeyStatement(
            challenge: statementChallenge ?? challenge, certificates: certificates)
        return try await server.post(
            "/attestation/approval-key",
            json: #"{"challenge":"\#(challenge)","attestation":\#(statement)}"#,
            bearer: bearer)
    }

    @Test func `the operator's token enrols the broker of a TPM, and then its fingers count`()
        async throws
    {
        try await run { server, tpm in
            let bearer = try await server.login().access
            let certificates = try await tpm.activate(on: server, bearer: bearer)
            let device = TestDevice()
            try await server.setUp(
                device, .finger(), in: tpm, certificates: certificates, bearer: bearer
            )
            .expectRefused(.unknownApprovalKey)
            let own = try await tpm.activate(on: server, bearer: Self.token)
            let answer = try await enrol(server, tpm, own, challenge: challenge(server))
            #expect(answer.status == 200, "\(answer.body)")
            #expect(
                try answer.json["name"]?.string
                    == AttestationConfiguration.text(tpm.approvalKeyName))
            let setup = try await server.setUp(
                device, .finger(), in: tpm, certificates: certificates, bearer: bearer)
            #expect(setup.status == 200, "\(setup.body)")
            let session = try Tokens(await server.authenticate(device).success())
            // After the administrator removed the approval key, its fingers no longer count.
            let registry = try #require(server.services.attestation).registry
            #expect(try await registry.all().map(\.name) == [tpm.approvalKeyName])
            #expect(try await registry.remove(tpm.approvalKeyName))
            try await server.authenticate(device).expectRefused(.unknownApprovalKey)
            #expect(try await server.userInfo(session.access).status != 200)
            #expect(try await server.refresh(#require(session.refresh)).status != 200)
            // It is no revocation of the device.
            try await server.userInfo(bearer).success()
        }
    }

    @Test(arguments: [false, true])
    func `a key that two brokers open does not log in after the removal of either`(
        _ isFirst: Bool
    ) async throws {
        try await run { server, tpm in
            let bearer = try await server.login().access
            let certificates = try await tpm.activate(on: server, bearer: bearer)
            let registry = try #require(server.services.attestation?.registry)
            let names = [tpm.approvalKeyName, tpm.secondApprovalKeyName]
            for name in names {
                #expect(try await registry.enrol(name, inTPMOf: tpm.attestationPublicKey))
            }
            let device = TestDevice()
            try await server.setUp(
                device, .twoBrokers, in: tpm, certificates: certificates, bearer: bearer
            ).success()
            try await server.authenticate(device).success()
            #expect(try await registry.remove(names[isFirst ? 0 : 1]))
            try await server.authenticate(device).expectRefused(.unknownApprovalKey)
        }
    }

    @Test func `a user's session and a wrong token enrol nothing`() async throws {
        try await run { server, tpm in
            let bearer = try await server.login().access
            let certificates = try await tpm.activate(on: server, bearer: bearer)
            for (token, status) in [(bearer, 403), ("a-guess-at-the-token", 401), ("", 401)] {
                let answer = try await enrol(
                    server, tpm, certificates, challenge: challenge(server), bearer: token)
                #expect(answer.status == status, "\(answer.body)")
            }
            let isKnown = try await server.services.attestation?.registry.isApprovalKey(
                tpm.approvalKeyName, inTPMOf: tpm.attestationPublicKey)
            #expect(isKnown == false)
        }
    }

    @Test func `a statement for another challenge, and a used challenge, are refused`() async throws
    {
        try await run { server, tpm in
            let certificates = try await tpm.activate(on: server, bearer: Self.token)
            let token = try await challenge(server)
            let other = try await challenge(server)
            try await enrol(server, tpm, certificates, challenge: token, statementChallenge: other)
                .expectForged()
            try await enrol(server, tpm, certificates, challenge: token).expectForged()
            try await enrol(server, tpm, certificates, challenge: server.challenge()).expectForged()
            #expect(try await enrol(server, tpm, certificates, challenge: other).status == 200)
        }
    }

    @Test func `the token permits nothing else, and without its digest there is no endpoint`()
        async throws
    {
        try await run { server, tpm in
            let device = TestDevice()
            let answer = try await server.biometric(
                device.setup(challenge: server.challenge(), now: server.time.seconds),
                bearer: Self.token)
            #expect(answer.status == 401, "\(answer.body)")
        }
        try await TestServer.runAttested { server, tpm in
            let answer = try await server.post(
                "/attestation/approval-key", json: "{}", bearer: Self.token)
            #expect(answer.status == 404)
            let activation = try await server.post(
                "/attestation/activation", json: tpm.activationBody, bearer: Self.token)
            #expect(activation.status == 401)
        }
    }

    @Test
    func `a digest that is none is an error of the configuration`() {
        func mistakes(_ digest: String) -> String? {
            let attestation = #"{"anchors": "/a", "broker_token_digest": "\#(digest)"}"#
            do {
                _ = try ServerConfiguration(
                    json: Data(
                        #"{"clients": [{"client_id": "a", "redirect_uris": ["a.b:/"]}], "attestation": \#(attestation)}"#
                            .utf8))
                return nil
            } catch {
                return "\(error)"
            }
        }
        #expect(mistakes(Self.digest) == nil)
        #expect(mistakes("abc")?.contains("is not 64 hexadecimal digits") == true)
    }
}

extension TestTPM {
    /// The JSON of a statement about the approval key, with the challenge as qualifying data.
    fileprivate func approvalKeyStatement(challenge: String, certificates: [Data]) throws -> String
    {
        let certInfo = Data(
            TPMWriter(
                UInt32(0xff54_4347), UInt16(0x8017), TPM2B([0, 11]), TPM2B(Array(challenge.utf8)),
                UInt64(1), UInt32(2),
                UInt32(3), UInt8(1), UInt64(4), TPM2B(Array(Self.tpmName(approvalArea))),
                TPM2B([0, 11])
            ).bytes)
        let signature = try attestationKey.signature(for: certInfo).derRepresentation
        return Self.json(
            nil, certInfo: certInfo, signature: signature, area: approvalArea,
            certificates: certificates)
    }
}
