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
            func keystore(isShared: Bool = false) -> TPMKeystore {
                TPMKeystore(anchors: anchors, isShared: isShared) { () throws(TPMError) in
                    try CountingTransport(tcti, counter)
                }
            }
            let prompt = PromptContext(reason: "count")
            let presence = PromptPresence()
            let digest = MessageDigest(sha256: [1])
            var findings = Findings()
            func count(_ operation: String, atMost most: Int) {
                findings.counts.append((operation, counter.take().map { "\($0)" }, most))
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
            _ = try await keystore(isShared: true).sign(
                digest, with: key, for: prompt, authorizedBy: presence)
            count("sign with a PIN, behind a resource manager", atMost: 5)
            let revocable = try await keystore().createRevocableKey(
                KeyRequest(policy: .pin, prompt: prompt), authorizedBy: presence
            ) { _ in }
            _ = counter.take()
            _ = try await keystore().sign(
                digest, with: revocable, for: prompt, authorizedBy: presence)
            // Two before the prompt, and seven after it. ARCHITECTURE.md states the reason for
            // each.
            count("sign with the PIN of a revocable key", atMost: 9)
            let request = AttestationRequest(challenge: Data(digest.bytes))
            _ = try await keystore().attest(revocable, for: request)
            _ = counter.take()
            _ = try await keystore().attest(revocable, for: request)
            count("attest a revocable key", atMost: 8)
            let secret = try await keystore().seal(
                .random(count: 32), policy: .none, for: prompt, authorizedBy: presence)
            count("make a protection class", atMost: 3)
            _ = try await keystore().unseal(secret, for: prompt, authorizedBy: presence)
            count("open a protection class", atMost: 4)
            let guarded = try await keystore().seal(
                .random(count: 32), policy: .pin, for: prompt, authorizedBy: presence)
            count("make one with a PIN", atMost: 3)
            _ = try await keystore().unseal(guarded, for: prompt, authorizedBy: presence)
            count("open one with a PIN", atMost: 5)
            return findings
        }
    }
}
