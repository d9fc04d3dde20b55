import Latchkey
import LatchkeyTPM

/// The capabilities of this machine's TPM, or of the TPM that a TCTI string names.
func describeTPM(tcti: String?) async throws -> String {
    let keystore = TPMKeystore(tcti: tcti, anchors: MemoryTrustAnchors())
    let capabilities = try await keystore.capabilities()
    return "\(capabilities.device): \(capabilities.root.rawValue)"
}
