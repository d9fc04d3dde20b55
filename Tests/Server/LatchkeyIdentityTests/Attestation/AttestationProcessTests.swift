import Crypto
import Foundation
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import latchkey_identity

/// The program as a process, with software TPMs as processes. Our own client sends none of the
/// refused requests: the test speaks the server's protocol itself, with keys and statements that
/// the TPMs made.
@Suite(
    "Attestation, refusals of the program", .softwareTPM(.endorsementCertificate),
    .requires(program: "swtpm_setup"))
struct AttestationProcessTests {
    private static let token = "a-token-of-the-servers-operator"

    /// The configuration of a server that requires a finger and trusts a TPM's authority.
    private static func configuration(_ tpm: SoftwareTPM, in directory: TemporaryDirectory) throws
        -> String
    {
        let anchors = try tpm.anchors(in: directory)
        let digest = SHA256.hash(data: Data(token.utf8)).map { String(hexByte: $0) }.joined()
        let json = #"""
            {"clients": [{"client_id": "app", "redirect_uris": ["http://127.0.0.1/callback"]}],
             "extensions": {"biometric_audience": false},
             "attestation": {"require": "finger", "simulated_anchors": ["\#(anchors)"], "accept_simulated": true,
                             "broker_token_digest": "\#(digest)"}}
            """#
        let path = directory.path(of: "config.json")
        try Data(json.utf8).write(to: URL(filePath: path))
        return path
    }

    @Test func `a server that requires a finger refuses each other key with its code`() async throws
    {
        let own = try SoftwareTPM.current
        try await SoftwareTPM.withRunning(.endorsementCertificate) { foreign in
            try await TemporaryDirectory.withDirectory { directory in
                let (database, storage) = try await IdentityProcess.storage(in: directory)
                let options = ["--port", "0", "--log-level", "notice"]
                let process = try await IdentityProcess(
                    ["--config", try Self.configuration(own, in: directory)] + options + storage)
                try await withTeardown({ await process.stop() }) {
                    try await TestServer.lend(process, database: database) { server in
                        try await Self.exchange(with: server, own, foreign)
                    }
                }
                // The response to a forged statement does not tell its sender the code.
                let codes = Self.codes(in: await process.log)
                #expect(
                    codes == [
                        "untrustedEndorsement", "unknownApprovalKey", "insufficientPresence",
                        "insufficientPresence",
                        "wrongAttributes", "wrongChallenge", "challengeRejected",
                        "invalidSignature",
                    ])
            }
        }
    }

    private static func codes(in log: String) -> [String] {
        log.split(separator: "\n").filter {
            $0.contains("attestation refused") || $0.contains("request refused")
        }
        .compactMap { line in
            line.split(separator: " ").first { $0.hasPrefix("code=") }.map {
                String($0.dropFirst(5))
            }
        }
    }

    private static func exchange(
        with server: TestServer, _ own: SoftwareTPM, _ foreign: SoftwareTPM
    ) async throws {
        let bearer = try await server.login().access
        let (tpm, other) = (try RawTPM(own), try RawTPM(foreign))
        let attestationKey = try tpm.createAttestationKey()

        // A simulator whose authority the operator did not configure.
        try await server.beginActivation(
            other.endorsementCertificate, tpm.createAttestationKey().area, bearer: bearer
        ).expectRefused(.untrustedEndorsement)
        let chain = try await server.activate(attestationKey, in: tpm, bearer: bearer)

        let finger = try RawTPM.Finger(
            tpm.create(RawTPM.signingArea(RawTPM.born.union([.userWithAuth, .noDA]))))
        let approved = RawDevice(
            key: try tpm.create(
                RawTPM.signingArea(RawTPM.born.union(RawTPM.gated), finger.branches)),
            branches: finger.branches, presence: finger.presence)
        let sign = { (text: Data) in
            try tpm.sign(text.sha256, with: approved.key, approvedBy: finger).raw
        }
        func setUp(
            _ device: RawDevice, _ challenge: String, in tpm: RawTPM, by signer: RawTPM.Key,
            _ sign: (Data) throws -> Data
        ) async throws -> (answer: Answer, jwt: String, statement: String) {
            let statement = try device.statement(
                challenge: challenge, origin: server.origin, in: tpm, by: signer,
                certificates: chain)
            let jwt = try device.request("setup", challenge, server.time.seconds, sign)
            let answer = try await server.biometric(
                jwt, bearer: bearer, overriding: ["attestation": statement])
            return (answer, jwt, statement)
        }
        try await setUp(approved, server.challenge(), in: tpm, by: attestationKey, sign)
            .answer.expectRefused(.unknownApprovalKey)
        try await enrol(finger.approvalKey, at: server, in: tpm)

        // The keys `none` and `pin`, both with the empty authValue.
        for attributes in [ObjectAttributes.userWithAuth.union(.noDA), .userWithAuth] {
            let weak = RawDevice(
                key: try tpm.create(RawTPM.signingArea(RawTPM.born.union(attributes))))
            try await setUp(weak, server.challenge(), in: tpm, by: attestationKey) {
                try tpm.sign($0.sha256, with: weak.key).raw
            }.answer.expectRefused(.insufficientPresence)
        }

        // A software key, imported with the policy of a finger key, and certified by the genuine
        // attestation key.
        let software = P256.Signing.PrivateKey()
        let imported = RawDevice(
            key: try tpm.importing(software, RawTPM.gated, finger.branches),
            branches: finger.branches,
            presence: finger.presence)
        try await setUp(imported, server.challenge(), in: tpm, by: attestationKey) {
            try software.signature(for: $0).rawRepresentation
        }.answer.expectForged()

        let challenge = try await server.challenge()
        let accepted = try await setUp(approved, challenge, in: tpm, by: attestationKey, sign)
        #expect(accepted.answer.status == 200, "\(accepted.answer.body)")
        // The accepted statement under a new challenge, and the whole accepted request.
        let replayed = try approved.request(
            "setup", await server.challenge(), server.time.seconds, sign)
        try await server.biometric(
            replayed, bearer: bearer, overriding: ["attestation": accepted.statement]
        )
        .expectForged()
        let again = try await server.biometric(
            accepted.jwt, bearer: bearer, overriding: ["attestation": accepted.statement])
        #expect(again.status == 400, "\(again.body)")
        #expect(try again.json["error"] == "invalid_grant")

        // A key in the other TPM, certified by the other TPM's attestation key, with the
        // certificate of the genuine one.
        let otherFinger = try RawTPM.Finger(
            other.create(RawTPM.signingArea(RawTPM.born.union([.userWithAuth, .noDA]))))
        let elsewhere = RawDevice(
            key: try other.create(
                RawTPM.signingArea(RawTPM.born.union(RawTPM.gated), otherFinger.branches)),
            branches: otherFinger.branches, presence: otherFinger.presence)
        try await setUp(elsewhere, server.challenge(), in: other, by: other.createAttestationKey())
        {
            try other.sign($0.sha256, with: elsewhere.key, approvedBy: otherFinger).raw
        }.answer.expectForged()

        let login = try approved.request(
            "authenticate", await server.challenge(), server.time.seconds, sign)
        try await server.biometric(login, overriding: ["scope": TestServer.fullScope]).success()
    }

    /// Enrols the approval key with the operator's token.
    private static func enrol(_ key: RawTPM.Key, at server: TestServer, in tpm: RawTPM) async throws
    {
        let attestationKey = try tpm.createAttestationKey()
        let chain = try await server.activate(attestationKey, in: tpm, bearer: token)
        let answer = try await server.post(
            "/oauth2/challenge", json: #"{"purpose":"approval_key_request"}"#
        ).success()
        let challenge = try #require(answer["result"]?["token"]?.string)
        let said = try tpm.certify(key, [], by: attestationKey, challenge: Array(challenge.utf8))
        let statement = TestTPM.json(
            nil, certInfo: Data(said.bytes), signature: Data(said.signature.marshalled),
            area: Data(key.area.marshalled),
            certificates: chain)
        try await server.post(
            "/attestation/approval-key",
            json: #"{"challenge":"\#(challenge)","attestation":\#(statement)}"#,
            bearer: token
        ).success()
    }
}

/// A key in a software TPM that signs biometric requests.
private struct RawDevice {
    let key: RawTPM.Key
    /// The branches of its policy.
    var branches: [PolicyDigest] = []
    /// The branches that its statements declare, JSON.
    var presence: String?
    let kid = UUID().uuidString

    private var publicKey: P256.Signing.PublicKey {
        get throws {
            let point = try #require(key.area.p256Point?.p256Representation)
            return try P256.Signing.PublicKey(x963Representation: point)
        }
    }

    /// The JSON of a statement by `TPM2_Certify`.
    func statement(
        challenge: String, origin: String, in tpm: RawTPM, by signer: RawTPM.Key,
        certificates: [Data]
    ) throws -> String {
        let binding = try TestTPM.Binding(
            publicKey, named: kid, challenge: challenge, origin: origin)
        let said = try tpm.certify(key, branches, by: signer, challenge: Array(binding.extraData))
        return TestTPM.json(
            binding, certInfo: Data(said.bytes), signature: Data(said.signature.marshalled),
            area: Data(key.area.marshalled), certificates: certificates, presence: presence)
    }

    func request(
        _ action: String, _ challenge: String, _ now: Int, _ sign: (Data) throws -> Data
    ) throws -> String {
        let input = try TestDevice.signingInput(
            action, publicKey, named: kid, challenge: challenge, now: now)
        return input + "." + Base64URL.encode(try sign(Data(input.utf8)))
    }
}

extension Data {
    fileprivate var sha256: [UInt8] { Array(SHA256.hash(data: self)) }
}

extension TPMSignature {
    /// `r ‖ s`, 64 bytes.
    fileprivate var raw: Data {
        get throws {
            guard case .ecdsa(_, let r, let s) = self else { throw CancellationError() }
            return Data(try #require(ECCPoint(x: r, y: s).p256Representation).dropFirst())
        }
    }
}

extension TestServer {
    fileprivate func beginActivation(_ certificate: Data, _ area: PublicArea, bearer: String)
        async throws -> Answer
    {
        try await post(
            "/attestation/activation",
            json: #"{"ek_certificates":["\#(Base64URL.encode(certificate))"],"#
                + #""attestation_key":"\#(Base64URL.encode(area.marshalled))"}"#, bearer: bearer)
    }

    /// Activates an attestation key in its TPM.
    ///
    /// - Returns: The certificates, the attestation key's first.
    fileprivate func activate(_ key: RawTPM.Key, in tpm: RawTPM, bearer: String) async throws
        -> [Data]
    {
        let begun = try await beginActivation(tpm.endorsementCertificate, key.area, bearer: bearer)
        try #require(begun.status == 201, "\(begun.body)")
        func member(_ name: String) throws -> Data {
            try #require(try begun.json[name]?.string.flatMap { Base64URL.decode($0) })
        }
        let (blob, encrypted) = (try member("credential_blob"), try member("encrypted_secret"))
        let secret = try tpm.with(key) { (object) throws(TPMError) in
            try tpm.activate(object, blob: blob, secret: encrypted)
        }
        let id = try #require(try begun.json["id"]?.string)
        let answer = try await post(
            "/attestation/activation/\(id)", json: #"{"secret":"\#(Base64URL.encode(secret))"}"#,
            bearer: bearer
        ).success()
        return try #require(answer["x5c"]?.array).map {
            try #require($0.string.flatMap { Base64URL.decode($0) })
        }
    }
}
