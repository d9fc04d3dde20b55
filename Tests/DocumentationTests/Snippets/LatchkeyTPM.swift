import Latchkey
import LatchkeyTPM

/// What the TPM of this machine can do, or the one that a TCTI string names.
func describeTPM(tcti: String?) async throws -> String {
    let keystore = TPMKeystore(tcti: tcti, anchors: MemoryTrustAnchors())
    let capabilities = try await keystore.capabilities()
    return "\(capabilities.device): \(capabilities.root.rawValue)"
}
