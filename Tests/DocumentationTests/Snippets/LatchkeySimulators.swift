import Latchkey
import LatchkeySimulators
import LatchkeyTPM

/// Tries something on a TPM that nobody else has and that is gone afterwards.
func tryOut(_ body: (any Keystore) async throws -> Void) async throws {
    try await SoftwareTPM.withRunning { tpm in
        try await body(TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors()))
    }
}
