import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// The budget of attestation: the commands of each step, and the median of its time on a software
/// TPM, which is printed.
@Suite(
    "Budget of attestation", .softwareTPM(.endorsementCertificate),
    .requires(program: "swtpm_setup"))
struct AttestationBudgetTests {
    private static let rounds = 5

    /// The steps in their order, with the number of commands and the time of each round.
    private struct Steps {
        var names: [String] = []
        var commands: [String: Set<Int>] = [:]
        var times: [String: [Duration]] = [:]

        mutating func measure<R>(_ name: String, _ wire: Wire, _ body: () async throws -> R)
            async rethrows -> R
        {
            wire.forget()
            let start = ContinuousClock.now
            let result = try await body()
            times[name, default: []].append(ContinuousClock.now - start)
            // At its first use, a simulator asks for a command again.
            let codes = wire.exchanges.filter {
                !$0.response.suffix(4).elementsEqual([0, 0, 0x09, 0x22])
            }
            commands[name, default: []].insert(codes.count)
            if !names.contains(name) { names.append(name) }
            return result
        }

        func print() {
            for name in names {
                let median = (times[name] ?? []).sorted()[AttestationBudgetTests.rounds / 2]
                let counts = (commands[name] ?? []).sorted().map { "\($0)" }.joined(
                    separator: " or ")
                let hundredths = median / .microseconds(10)
                Swift.print("\(name): \(counts) commands, \((hundredths).rounded() / 100) ms")
            }
        }
    }

    @Test func `an enrolment takes fifteen commands more, and each attestation five`() async throws
    {
        let (wire, rig) = (Wire(), try EnrolmentRig())
        var steps = Steps()
        for _ in 0..<Self.rounds {
            let keystore = wire.keystore(try SoftwareTPM.current)
            let key = try await keystore.createRevocableKey(
                KeyRequest(policy: .pin, prompt: Scene.prompt),
                authorizedBy: ScriptedPresence(pins: "123456")
            ) { _ in }
            let issuer = EnrolmentRig.issuer
            let identity = try await steps.measure("attestation key and endorsement", wire) {
                try await keystore.attestationIdentity(for: issuer)
            }
            let (challenge, pending) = try rig.challenge(identity)
            let secret = try await steps.measure("activation", wire) {
                try await keystore.activate(challenge, for: issuer)
            }
            let certificates = try rig.authority.certificate(
                for: pending, secret: secret.withUnsafeBytes { Data($0) })
            try await keystore.keepAttestationCertificates(certificates, for: issuer)
            let request = AttestationRequest(
                challenge: Data(count: 32), issuer: issuer, form: EnrolmentRig.enrolment)
            _ = try await steps.measure("attestation", wire) {
                try await keystore.attest(key, for: request)
            }
        }
        steps.print()
        // Four of them for the second endorsement key.
        #expect(steps.commands["attestation key and endorsement"] == [11])
        #expect(steps.commands["activation"] == [4])
        #expect(steps.commands["attestation"] == [5])
    }
}
