import TPM2
import TPM2TCTI

/// Random bytes from the TPM behind a TCTI string.
func randomBytes(_ count: UInt16, from tcti: String) throws -> [UInt8] {
    let tpm = TPM(try TCTIConnection(tcti))
    return try tpm.getRandom(count)
}
