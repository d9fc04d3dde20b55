import Crypto
import Foundation
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

@Suite("Attestation, biometric set-up") struct AttestationSetupTests {
    private static func requiring(
        _ level: String
    ) -> (inout ServerConfiguration, inout AttestationConfiguration, TestTPM) -> Void {
        { _, attestation, _ in attestation.require = level }
    }

    @Test func `a key in a TPM is set up, its proof is stored, and it logs in`() async throws {
        try await TestServer.runAttested(Self.requiring("hardware")) { server, tpm in
            let bearer = try await server.login().access
            let chain = try await tpm.activate(on: server, bearer: bearer)
            let device = TestDevice()
            let answer = try await server.setUp(
                device, .bare, in: tpm, certificates: chain, bearer: bearer)
            #expect(answer.status == 200 && answer.body.isEmpty)
            let stored = try #require(
                try await server.services.devices.devices(of: server.alice.id).first?.attestation)
            #expect(stored.level == "hardware")
            #expect(stored.presence == "none")
            #expect(!stored.isSimulated)
            #expect(stored.time == Double(server.time.seconds))
            try await server.authenticate(device).success()
        }
    }

    @Test(arguments: ["hardware", "presence", "finger"])
    func `a set-up without an attestation is refused and uses no challenge`(level: String)
        async throws
    {
        try await TestServer.runAttested(Self.requiring(level)) { server, tpm in
            let bearer = try await server.login().access
            let device = TestDevice()
            let challenge = try await server.challenge()
            let jwt = try device.setup(challenge: challenge, now: server.time.seconds)
            try await server.biometric(jwt, bearer: bearer).expectRefusal(
                400, "attestation_required", "an attestation of the key is required")
            #expect(try await server.services.challenges.consume(challenge, for: .biometricRequest))
            #expect(try await server.services.devices.devices(of: server.alice.id).isEmpty)
        }
    }

    @Test func `without a requirement, an attestation is optional, but an invalid one is refused`()
        async throws
    {
        try await TestServer.runAttested { server, tpm in
            let bearer = try await server.login().access
            try await server.setUp(TestDevice(), bearer: bearer).success()
            let chain = try await tpm.activate(on: server, bearer: bearer)
            try await server.setUp(
                TestDevice(), .imported, in: tpm, certificates: chain, bearer: bearer
            )
            .expectForged()
            let jwt = try TestDevice().setup(
                challenge: await server.challenge(), now: server.time.seconds)
            try await server.biometric(jwt, bearer: bearer, overriding: ["attestation": "{}"])
                .expectForged()
            #expect(
                try await server.services.devices.devices(of: server.alice.id).map(\.attestation)
                    == [nil])
            try await server.setUp(TestDevice(), .pin, in: tpm, certificates: chain, bearer: bearer)
                .success()
            let proofs = try await server.services.devices.devices(of: server.alice.id).compactMap(
                \.attestation)
            #expect(proofs.map(\.presence) == ["pin"])
            #expect(proofs.map(\.level) == ["none"])
        }
    }

    @Test func `each requirement accepts the keys of its row only`() async throws {
        for (level, accepted) in [
            ("hardware", ["bare", "pin", "finger", "reuse"]),
            ("presence", ["pin", "finger", "reuse"]),
            ("finger", ["finger"]),
        ] {
            try await TestServer.runAttested(Self.requiring(level)) { server, tpm in
                let bearer = try await server.login().access
                let chain = try await tpm.activate(on: server, bearer: bearer)
                let registry = try #require(server.services.attestation).registry
                #expect(
                    try await registry.enrol(
                        tpm.approvalKeyName, inTPMOf: tpm.attestationPublicKey))
                for (name, kind) in [
                    ("bare", TestTPM.Kind.bare), ("pin", .pin), ("finger", .finger()),
                    ("reuse", .finger(reuse: 1)),
                ] {
                    let answer = try await server.setUp(
                        TestDevice(), kind, in: tpm, certificates: chain, bearer: bearer)
                    if accepted.contains(name) {
                        #expect(answer.status == 200, "\(level) \(name): \(answer.body)")
                    } else {
                        try answer.expectRefused(.insufficientPresence)
                    }
                }
                try await server.setUp(
                    TestDevice(), .imported, in: tpm, certificates: chain, bearer: bearer
                )
                .expectForged()
            }
        }
    }

    @Test func `an approval key must be enrolled for the same TPM`() async throws {
        try await TestServer.runAttested(Self.requiring("finger")) { server, tpm in
            let bearer = try await server.login().access
            let chain = try await tpm.activate(on: server, bearer: bearer)
            func setUp() async throws -> Answer {
                try await server.setUp(
                    TestDevice(), .finger(), in: tpm, certificates: chain, bearer: bearer)
            }
            try await setUp().expectRefused(.unknownApprovalKey)
            let registry = try #require(server.services.attestation).registry
            #expect(
                try await registry.enrol(tpm.approvalKeyName, inTPMOf: tpm.attestationPublicKey))
            try await setUp().success()
            #expect(try await registry.remove(tpm.approvalKeyName))
            try await setUp().expectRefused(.unknownApprovalKey)
        }
    }

    @Test func `a simulator meets a requirement only if the operator accepts simulators`()
        async throws
    {
        for isAccepted in [false, true] {
            try await TestServer.runAttested(
                { _, attestation, _ in
                    attestation.require = "hardware"
                    attestation.acceptSimulated = isAccepted
                }, isSimulated: true
            ) { server, tpm in
                let bearer = try await server.login().access
                let chain = try await tpm.activate(on: server, bearer: bearer)
                let answer = try await server.setUp(
                    TestDevice(), .pin, in: tpm, certificates: chain, bearer: bearer)
                if isAccepted { try answer.success() } else { try answer.expectRefused(.simulated) }
                let stored = try await server.services.devices.devices(of: server.alice.id).first?
                    .attestation
                #expect(stored?.isSimulated == (isAccepted ? true : nil))
            }
        }
    }

    @Test func `a client can have its own requirement`() async throws {
        try await TestServer.runAttested { configuration, attestation, _ in
            attestation.require = "hardware"
            configuration.clients[0].attestationRequire = "none"
        } body: { server, _ in
            let path = "/.well-known/openid-configuration"
            #expect(
                try await server.send(.get, path).success()["attestation_required"] == "hardware")
            #expect(
                try await server.send(.get, path + "?client_id=app").success()[
                    "attestation_required"] == "none")
            #expect(
                try await server.send(.get, path + "?client_id=x").success()["attestation_required"]
                    == "hardware")
            try await server.setUp(TestDevice(), bearer: server.login().access).success()
        }
    }

    @Test
    func
        `a key that was set up for a client with a weaker requirement does not log in to a stricter one`()
        async throws
    {
        try await TestServer.runAttested { configuration, _, _ in
            for level in ["hardware", "presence", "finger"] {
                var client = configuration.clients[0]
                client.id = level
                client.attestationRequire = level
                configuration.clients.append(client)
            }
        } body: { server, tpm in
            let bearer = try await server.login().access
            let chain = try await tpm.activate(on: server, bearer: bearer)
            let registry = try #require(server.services.attestation).registry
            #expect(
                try await registry.enrol(tpm.approvalKeyName, inTPMOf: tpm.attestationPublicKey))
            for (kind, levels) in [
                (nil, []), (.bare, ["hardware"]), (.pin, ["hardware", "presence"]),
                (.finger(), ["hardware", "presence", "finger"]),
            ] as [(TestTPM.Kind?, [String])] {
                let device = TestDevice()
                if let kind {
                    try await server.setUp(
                        device, kind, in: tpm, certificates: chain, bearer: bearer
                    ).success()
                } else {
                    try await server.setUp(device, bearer: bearer).success()
                }
                try await server.authenticate(device).success()
                for level in ["hardware", "presence", "finger"] {
                    let answer = try await server.authenticate(
                        device, overriding: ["client_id": level])
                    if levels.contains(level) {
                        try answer.success()
                    } else if kind == nil {
                        try answer.expectRefusal(
                            400, "attestation_required", "an attestation of the key is required")
                    } else {
                        try answer.expectRefused(.insufficientPresence)
                    }
                }
            }
        }
    }

    @Test func `a server without attestation ignores the member, as before`() async throws {
        try await TestServer.run { server in
            let jwt = try TestDevice().setup(
                challenge: await server.challenge(), now: server.time.seconds)
            let bearer = try await server.login().access
            try await server.biometric(jwt, bearer: bearer, overriding: ["attestation": "not JSON"])
                .success()
            #expect(
                try await server.services.devices.devices(of: server.alice.id).map(\.attestation)
                    == [nil])
        }
    }
}

extension String {
    /// Two hexadecimal digits.
    init(hexByte byte: UInt8) {
        self = (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }
}
