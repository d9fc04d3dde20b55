import CFloor
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import TPM2
import TPM2TCTI

/// Compares `TPMKeystore.sign` with hand-written commands and with ESAPI on one swtpm, in
/// alternating calls.
struct TPMSigning {
    let rounds: Int

    /// The contestants, in the order of a round.
    private enum Contestant: String, CaseIterable {
        case raw = "raw: the six commands of a key with two branches (floor R2)"
        case least = "raw: the four commands of a key with a PIN"
        case esapi = "ESAPI: the six commands (floor P2)"
        case ours = "TPMKeystore.sign: five commands, and the signature verified"
        case rawPrimed = "raw, after the PIN (floor R2 primed)"
        case esapiPrimed = "ESAPI, after the PIN"
        case oursPrimed = "TPMKeystore.sign behind a resource manager, after the PIN"
    }

    @concurrent func run() async throws -> Findings {
        try await SoftwareTPM.withRunning { tpm in
            let tcti = tpm.tcti
            let anchors = MemoryTrustAnchors()
            let bare = TPMKeystore(tcti: tcti, anchors: anchors)
            let shared = TPMKeystore(anchors: anchors, isShared: true) { () throws(TPMError) in
                try TCTIConnection(tcti)
            }
            let prompt = PromptContext(reason: "measure")
            let presence = PromptPresence()
            let key = try await bare.createKey(
                KeyRequest(policy: .pin, prompt: prompt), authorizedBy: presence)
            guard let floor = floor_tpm_open(tcti, PromptPresence.pin) else {
                throw Failure(reason: "the floor can't be opened")
            }
            var samples: [Contestant: Samples] = [:]
            for round in -5..<rounds {
                if round == 0 { samples = [:] }
                let digest = MessageDigest(sha256: [UInt8(truncatingIfNeeded: round)])
                for contestant in Contestant.allCases {
                    let time =
                        switch contestant {
                        case .ours:
                            try await Self.time {
                                _ = try await bare.sign(
                                    digest, with: key, for: prompt, authorizedBy: presence)
                            }
                        case .oursPrimed:
                            try await Self.timeSincePIN(presence) {
                                _ = try await shared.sign(
                                    digest, with: key, for: prompt, authorizedBy: presence)
                            }
                        default: try Self.time(contestant, floor, digest)
                        }
                    samples[contestant, default: Samples()].add(time)
                }
            }
            return findings(samples)
        }
    }

    private func findings(_ samples: [Contestant: Samples]) -> Findings {
        func of(_ contestant: Contestant) -> Samples { samples[contestant] ?? Samples() }
        var table = Table(
            "P-256 signature with a PIN in one process, swtpm, \(rounds) rounds in turn")
        for contestant in Contestant.allCases { table.add(contestant.rawValue, of(contestant)) }
        let goals: [Goal] = [
            .ratio(
                "cold PIN signature, swtpm", of(.ours), over: of(.raw), named: "raw R2", atMost: 1.2
            ),
            .ratio(
                "cold PIN signature, swtpm", of(.ours), over: of(.esapi), named: "ESAPI P2",
                atMost: 1),
            .ratio(
                "primed signature after the PIN", of(.oursPrimed), over: of(.rawPrimed),
                named: "raw R2 primed",
                atMost: 1.25),
        ]
        return Findings(goals: goals, tables: [table])
    }

    /// The time of a floor; for a primed one, only the time after the PIN.
    private static func time(
        _ contestant: Contestant, _ floor: OpaquePointer, _ digest: MessageDigest
    ) throws -> Duration {
        let bytes = digest.bytes
        var signature = [UInt8](repeating: 0, count: 64)
        var key = FLOOR_POLICY
        var time = Duration.zero
        switch contestant {
        case .esapi: return try check { floor_tpm_sign_esapi(floor, bytes) }
        case .esapiPrimed:
            _ = try check { floor_tpm_prime_esapi(floor) }
            time = try check { floor_tpm_sign_primed_esapi(floor, bytes) }
            _ = try check { floor_tpm_end_primed_esapi(floor) }
            return time
        case .rawPrimed:
            _ = try check { floor_tpm_prime(floor) }
            time = try check { floor_tpm_sign_primed(floor, bytes, &signature) }
            _ = try check { floor_tpm_end_primed(floor) }
        case .least:
            key = FLOOR_PIN
            time = try check { floor_tpm_sign(floor, key, bytes, &signature) }
        default: time = try check { floor_tpm_sign(floor, key, bytes, &signature) }
        }
        guard floor_tpm_verify(floor, key, bytes, signature) == 1 else {
            throw Failure(reason: "the floor's signature is wrong")
        }
        return time
    }

    private static func check(_ body: () -> UInt32) throws -> Duration {
        var code: UInt32 = 0
        let time = ContinuousClock().measure { code = body() }
        guard code == 0 else {
            throw Failure(reason: "the floor failed: 0x\(String(code, radix: 16))")
        }
        return time
    }

    private static func time(_ body: () async throws -> Void) async throws -> Duration {
        let start = ContinuousClock.now
        try await body()
        return ContinuousClock.now - start
    }

    private static func timeSincePIN(
        _ presence: PromptPresence, _ body: () async throws -> Void
    ) async throws -> Duration {
        try await body()
        return presence.sincePIN
    }
}
