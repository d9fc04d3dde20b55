internal import FoundationEssentials

/// A `TPMS_ATTEST` about the creation of a key (TPM 2.0 Part 2 section 10.12.12).
struct TPMCreationStatement {
    /// `TPM_GENERATED_VALUE` (Part 2 section 6.2): `ff` `TCG`.
    static let magic: UInt32 = 0xFF54_4347
    /// `TPM_ST_ATTEST_CREATION` (Part 2 section 6.9).
    static let type: UInt16 = 0x801A

    /// What the verifier asked the TPM to sign along.
    let challenge: Data
    /// The Name of the key that was created.
    let name: Data

    init(_ bytes: Data) throws(AttestationError) {
        var reader = TPMReader(bytes, structure: "the statement")
        guard try reader.uint32() == Self.magic else {
            throw AttestationError(.wrongMagic, "the statement was not made by a TPM")
        }
        guard try reader.uint16() == Self.type else {
            throw AttestationError(.wrongType, "the statement is not about a creation")
        }
        _ = try reader.sized()  // qualifiedSigner
        challenge = try reader.sized()
        try reader.skip(8 + 4 + 4 + 1)  // TPMS_CLOCK_INFO
        try reader.skip(8)  // firmwareVersion
        name = try reader.sized()
        _ = try reader.sized()  // creationHash
        try reader.finish()
    }
}
