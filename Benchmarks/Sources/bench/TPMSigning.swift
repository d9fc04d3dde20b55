import CFloor
import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import TPM2
import TPM2TCTI

/// Compares `TPMKeystore.sign` with hand-written commands and with ESAPI on one swtpm, in
/// alternating calls, and with the process `latchkey key sign`.
struct TPMSigning {
    let rounds: Int

    /// What a round measures, in this order.
    private enum Contestant: CaseIterable {
        /// The six commands of a key with two branches, written by hand (R2) and through ESAPI.
        case raw, esapi
        /// `TPMKeystore.sign`: five commands, and the signature verified.
        case ours
        /// After the PIN. Latchkey's is behind a resource manager.
        case rawPrimed, oursPrimed
        /// `latchkey key sign`, from the start of the process to its end.
        case process
    }

    @concurrent func run() async throws -> Findings {
        try await SoftwareTPM.withRunning { tpm in
            let tcti = tpm.tcti
            let anchors = MemoryTrustAnchors()
            let bare = TPMKeystore(tcti: tcti, anchors: anchors)
            let shared = TPMKeystore(anchors: anchors, isShared: true) { () throws(TPMError) in
                try TCTIConnection(tcti)
            }
            let (prompt, presence) = (PromptContext(reason: "measure"), PromptPresence())
            let key = try await bare.createKey(
                KeyRequest(policy: .pin, prompt: prompt), authorizedBy: presence)
            guard let floor = floor_tpm_open(tcti, PromptPresence.pin) else {
                throw Failure(reason: "the floor can't be opened")
            }
            let directory = try TemporaryDirectory()
            let process = try SigningProcess(tpm, directory)
            var samples: [Contestant: Samples] = [:]
            for round in -5..<rounds {
                if round == 0 { samples = [:] }
                let digest = MessageDigest(sha256: [UInt8(truncatingIfNeeded: round)])
                for contestant in Contestant.allCases {
                    let time: Duration
                    switch contestant {
                    case .raw: time = try Self.sign(floor, digest, isPrimed: false)
                    case .esapi:
                        time = try Self.check { floor_tpm_sign_esapi(floor, digest.bytes) }
                    case .rawPrimed: time = try Self.sign(floor, digest, isPrimed: true)
                    case .ours:
                        let start = ContinuousClock.now
                        _ = try await bare.sign(
                            digest, with: key, for: prompt, authorizedBy: presence)
                        time = ContinuousClock.now - start
                    case .oursPrimed:
                        _ = try await shared.sign(
                            digest, with: key, for: prompt, authorizedBy: presence)
                        time = presence.sincePIN
                    case .process:
                        // A process takes ten times as long.
                        guard round % 5 == 0 else { continue }
                        time = try process.run()
                    }
                    samples[contestant, default: Samples()].add(time)
                }
            }
            func of(_ contestant: Contestant) -> Samples { samples[contestant] ?? Samples() }
            let added = of(.process).median - of(.ours).median
            return Findings(rows: [
                Row(
                    "cold signature with a PIN ÷ raw commands", of(.ours), over: of(.raw), atMost: 1
                ),
                Row("the same ÷ ESAPI", of(.ours), over: of(.esapi), atMost: 0.35),
                Row(
                    "primed signature after the PIN ÷ raw commands", of(.oursPrimed),
                    over: of(.rawPrimed), atMost: 1.4),
                Row(
                    "what `key sign` adds to the TPM's time", added.milliseconds, "ms", atMost: 40,
                    note: "\(of(.process).median.text) − \(of(.ours).median.text)"),
            ])
        }
    }

    /// The time of a raw signature; of a primed one, only the time after the PIN.
    private static func sign(
        _ floor: OpaquePointer, _ digest: MessageDigest, isPrimed: Bool
    ) throws -> Duration {
        var signature = [UInt8](repeating: 0, count: 64)
        if isPrimed { _ = try check { floor_tpm_prime(floor) } }
        let time = try check {
            isPrimed
                ? floor_tpm_sign_primed(floor, digest.bytes, &signature)
                : floor_tpm_sign(floor, digest.bytes, &signature)
        }
        if isPrimed { _ = try check { floor_tpm_end_primed(floor) } }
        guard floor_tpm_verify(floor, digest.bytes, signature) == 1 else {
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
}

/// `latchkey key sign` with a key of its store.
private struct SigningProcess {
    private let program: Program
    private let arguments: [String]

    init(_ tpm: SoftwareTPM, _ directory: TemporaryDirectory) throws {
        let pin = directory.path(of: "pin")
        try Data("\(PromptPresence.pin)\n".utf8).write(to: URL(filePath: pin))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: pin)
        program = Program.built(
            "latchkey",
            environment: [
                "LATCHKEY_TCTI": tpm.tcti, "XDG_CONFIG_HOME": directory.path(of: "config"),
            ])
        let options = ["--store", directory.path(of: "store"), "--pin-source", "file:\(pin)"]
        struct Created: Decodable {
            let id: String
        }
        let report = try program.run(["key", "create", "--policy", "pin", "--json"] + options)
        let id = try JSONDecoder().decode(Created.self, from: report).id
        let digest = String(repeating: "a5", count: 32)
        arguments = ["key", "sign", id, "--digest", digest] + options
    }

    func run() throws -> Duration { try program.measure(arguments) }
}
