import Latchkey
import LatchkeySimulators
import LatchkeyTPM

private func useTPM(_ body: (TPMKeystore) async throws -> Void) async throws {
    try await SoftwareTPM.withRunning { tpm in
        let keystore = TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors())
        try await body(keystore)
    }
}
