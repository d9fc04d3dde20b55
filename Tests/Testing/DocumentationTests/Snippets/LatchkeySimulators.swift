import Latchkey
import LatchkeySimulators
import LatchkeyTPM

/// Runs `body` with a keystore on a new TPM, which is removed afterwards.
func withSoftwareTPM(_ body: (any Keystore) async throws -> Void) async throws {
    try await SoftwareTPM.withRunning { tpm in
        try await body(TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors()))
    }
}
