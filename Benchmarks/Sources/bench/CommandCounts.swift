import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import TPM2

/// Counts TPM commands. `CommandBudgetTests` and, for fingerprints, `FingerPolicyTests` fail if a
/// number grows.
struct CommandCounts {
    @concurrent func run() async throws -> Findings {
        try await SoftwareTPM.withRunning { tpm in
            let (counter, tcti) = (CountingTransport.Counter(), tpm.tcti)
            let anchors = MemoryTrustAnchors()
            // As behind the kernel's resource manager: without one, a prompt adds ReadPublic.
            func keystore() -> TPMKeystore {
                TPMKeystore(anchors: anchors, isShared: true) { () throws(TPMError) in
                    try CountingTransport(tcti, counter)
                }
            }
            let (prompt, presence) = (PromptContext(reason: "count"), PromptPresence())
            let digest = MessageDigest(sha256: [1])
            var findings = Findings()
            func count(_ operation: String, atMost most: Int) {
                let commands = counter.take()
                findings.rows.append(
                    Row(
                        "TPM: \(operation)", Double(commands.count), "commands",
                        atMost: Double(most),
                        note: commands.map { "\($0)" }.joined(separator: ", ")))
            }
            // The storage root key exists from now on.
            _ = try await keystore().createKey(
                KeyRequest(policy: .none, prompt: prompt), authorizedBy: presence)
            _ = counter.take()
            let key = try await keystore().createKey(
                KeyRequest(policy: .pin, prompt: prompt), authorizedBy: presence)
            count("create a key with a PIN", atMost: 3)
            // At the first authorization after its start, the TPM records it and requests a retry
            // of the command.
            _ = try await keystore().sign(digest, with: key, for: prompt, authorizedBy: presence)
            _ = counter.take()
            _ = try await keystore().sign(digest, with: key, for: prompt, authorizedBy: presence)
            count("sign with a PIN", atMost: 5)
            let revocable = try await keystore().createRevocableKey(
                KeyRequest(policy: .pin, prompt: prompt), authorizedBy: presence
            ) { _ in }
            count("create a revocable key with a PIN", atMost: 15)
            _ = try await keystore().sign(
                digest, with: revocable, for: prompt, authorizedBy: presence)
            count("sign with the PIN of a revocable key", atMost: 8)
            let secret = try await keystore().seal(
                .random(count: 32), policy: .none, for: prompt, authorizedBy: presence)
            _ = counter.take()
            _ = try await keystore().unseal(secret, for: prompt, authorizedBy: presence)
            count("open a record key", atMost: 4)
            let guarded = try await keystore().seal(
                .random(count: 32), policy: .pin, for: prompt, authorizedBy: presence)
            _ = counter.take()
            _ = try await keystore().unseal(guarded, for: prompt, authorizedBy: presence)
            count("open a record key with a PIN", atMost: 5)
            return findings
        }
    }
}
