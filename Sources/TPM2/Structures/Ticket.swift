/// Proof that this TPM did something before: `TPMT_TK_CREATION`, `_VERIFIED`, `_AUTH`, `_HASHCHECK` (TPM 2.0 Part 2
/// section 10.7).
public struct Ticket: Hashable, Sendable {
    /// Of what it is proof (`TPM_ST_…`).
    public let tag: UInt16
    /// The hierarchy whose secret proves it.
    public let hierarchy: TPMHandle
    /// The proof, an HMAC of the TPM's.
    public let digest: [UInt8]

    /// No proof that the TPM computed a digest itself. Enough for keys that are not restricted.
    public static let nullHashCheck = Ticket(tag: 0x8024, hierarchy: .null, digest: [])
}

extension Ticket: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        tag = try reader.read()
        hierarchy = try reader.read()
        digest = try reader.readSized(maximum: 64)
    }

    public func marshal(into writer: inout TPMWriter) {
        writer.write(tag)
        writer.write(hierarchy)
        writer.writeSized(digest)
    }
}
