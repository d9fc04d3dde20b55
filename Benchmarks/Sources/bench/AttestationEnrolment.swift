import Authorities
import Crypto
import Foundation
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTPM
import SwiftASN1
import TPM2
import X509

/// Measures an enrolment with a proof: the client's TPM commands and their time, and the server's
/// processor time and memory for each request. `AttestationBudgetTests` and `AttestationCostTests`
/// fail if the number of commands or of verified signatures grows.
struct AttestationEnrolment {
    let rounds: Int

    @concurrent func run() async throws -> Findings {
        var findings = try await client()
        findings += try server()
        return findings
    }

    // MARK: The client

    /// A step of the client, with the TPM commands and the time on an idle machine that its
    /// specification permits.
    private enum Step: String, CaseIterable {
        case identity = "create an attestation key, and read the endorsement certificate"
        case activation = "activate the attestation key"
        case key = "create a revocable key with a PIN"
        case attestation = "attest a key"

        var mostCommands: Int {
            switch self {
            case .identity: 7
            case .activation: 4
            case .key: 15
            case .attestation: 8
            }
        }

        /// Twice the specified milliseconds, because other programs can use the machine; nil if no
        /// time is specified.
        var mostMilliseconds: Double? {
            switch self {
            case .identity: 4.3
            case .activation: 4.8
            case .key: nil
            case .attestation: 2
            }
        }
    }

    private func client() async throws -> Findings {
        try await SoftwareTPM.withRunning(.endorsementCertificate) { tpm in
            let (counter, tcti, anchors) = (
                CountingTransport.Counter(), tpm.tcti, MemoryTrustAnchors()
            )
            let authority = try Self.authority(for: tpm)
            var samples: [Step: Samples] = [:]
            var commands: [Step: [String]] = [:]
            func measure<R>(_ step: Step, _ body: () async throws -> R) async throws -> R {
                _ = counter.take()
                let start = ContinuousClock.now
                let result = try await body()
                samples[step, default: Samples()].add(ContinuousClock.now - start)
                commands[step] = counter.take().map { "\($0)" }
                return result
            }
            // In the first rounds, the TPM requests a retry of some commands.
            for round in -2..<rounds {
                if round == 0 { samples = [:] }
                let keystore = TPMKeystore(anchors: anchors, isShared: false) {
                    () throws(TPMError) in
                    try CountingTransport(tcti, counter)
                }
                // A program that has used the storage root key does not check again that it exists.
                let prompt = PromptContext(reason: "measure")
                let first = try await keystore.createKey(
                    KeyRequest(policy: .none, prompt: prompt), authorizedBy: PromptPresence())
                try await keystore.delete(first)
                let issuer = "https://id\(round + 2).example"
                let identity = try await measure(.identity) {
                    try await keystore.attestationIdentity(for: issuer)
                }
                let (challenge, pending) = try authority.challenge(
                    endorsement: identity.endorsementCertificates,
                    attestationKey: identity.attestationKey)
                let secret = try await measure(.activation) {
                    try await keystore.activate(
                        ActivationChallenge(
                            credentialBlob: challenge.credentialBlob,
                            encryptedSecret: challenge.encryptedSecret),
                        for: issuer)
                }
                let certificates = try authority.certificate(
                    for: pending, secret: secret.withUnsafeBytes { Data($0) })
                try await keystore.keepAttestationCertificates(certificates, for: issuer)
                let key = try await measure(.key) {
                    try await keystore.createRevocableKey(
                        KeyRequest(policy: .pin, prompt: prompt), authorizedBy: PromptPresence()
                    ) { _ in }
                }
                let request = AttestationRequest(
                    challenge: Data(repeating: UInt8(truncatingIfNeeded: round), count: 32),
                    issuer: issuer,
                    form: .webAuthn(rpID: "id.example", origin: issuer))
                _ = try await measure(.attestation) { try await keystore.attest(key, for: request) }
                try await keystore.delete(key)
            }
            return findings(samples, commands)
        }
    }

    private func findings(_ samples: [Step: Samples], _ commands: [Step: [String]]) -> Findings {
        var findings = Findings()
        var table = Table("An enrolment with a proof, swtpm, the client, \(rounds) rounds")
        for step in Step.allCases {
            let (time, sent) = (samples[step] ?? Samples(), commands[step] ?? [])
            table.add(step.rawValue, time)
            findings.counts.append((step.rawValue, sent, step.mostCommands))
            findings.goals.append(
                .limit(
                    "TPM commands: \(step.rawValue)", Double(sent.count), "commands",
                    atMost: Double(step.mostCommands))
            )
            if let most = step.mostMilliseconds {
                findings.goals.append(
                    .limit(
                        "time on swtpm: \(step.rawValue)", time.median.milliseconds, "ms",
                        atMost: most))
            }
        }
        findings.tables.append(table)
        return findings
    }

    /// A server that trusts the authority of the software TPM.
    private static func authority(for tpm: SoftwareTPM) throws -> EndorsementAuthority {
        func issuer(_ name: String) throws -> AttestationIssuer {
            let key = P256.Signing.PrivateKey()
            let authority = Authority(name, key: Certificate.PrivateKey(key), .ecdsaWithSHA256)
            return try AttestationIssuer(
                certificate: authority.certificate(), privateKey: key.pemRepresentation)
        }
        // The TPM's socket is in the directory of its state.
        let socket = tpm.tcti.trimmingPrefix("swtpm:path=")
        let folder = URL(filePath: String(socket)).deletingLastPathComponent().appending(path: "ca")
        func certificates(_ name: String) throws -> [Data] {
            let text = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
            return try PEMDocument.parseMultiple(pemString: text).map { Data($0.derBytes) }
        }
        let simulated = try AttestationAnchors.Group(
            roots: certificates("swtpm-localca-rootca-cert.pem"),
            intermediates: certificates("issuercert.pem"))
        return EndorsementAuthority(
            anchors: AttestationAnchors(simulated: simulated),
            issuer: try issuer("Attestation keys"),
            simulatedIssuer: try issuer("Simulated attestation keys"))
    }

    // MARK: The server

    /// An element of the output of `attestation-cost`.
    private struct Cost: Decodable {
        let request: String
        let isHonest: Bool
        let outcome: String
        let milliseconds: Double
        let bytes: Int
    }

    private func server() throws -> Findings {
        let costs = try JSONDecoder().decode(
            [Cost].self, from: Program.built("attestation-cost").run([]))
        var figures = Figures(
            title: "The server's cost of one request with a proof",
            columns: ["request", "outcome", "CPU", "memory"])
        figures.note = """
            CPU is the processor time of the process, the median of 21 requests. Memory is the most that the allocator had handed \
            out at one time above the state before the request, without the stack. The requests of hostile clients have the \
            largest size and the slowest signatures that the server accepts. Not included: HTTP, the JSON around an activation, \
            and the database.
            """
        for cost in costs {
            figures.rows.append([
                cost.isHonest ? "\(cost.request) (honest)" : cost.request, cost.outcome,
                "\(Decimals.format(cost.milliseconds, 2)) ms",
                "\(Decimals.format(Double(cost.bytes) / 1024, 1)) KiB",
            ])
        }
        func most(_ value: (Cost) -> Double, isHonest: Bool) -> Double {
            costs.filter { $0.isHonest == isHonest }.map(value).max() ?? .infinity
        }
        var findings = Findings(figures: [figures])
        for (client, isHonest) in [("an honest client", true), ("a hostile client", false)] {
            findings.goals += [
                .limit(
                    "server's processor time for one request of \(client)",
                    most({ $0.milliseconds }, isHonest: isHonest), "ms", atMost: 20),
                .limit(
                    "server's memory for one request of \(client)",
                    most({ Double($0.bytes) / 1024 }, isHonest: isHonest), "KiB", atMost: 64),
            ]
        }
        return findings
    }
}
