/// An object or session that was swapped out of the TPM, `TPMS_CONTEXT` (TPM 2.0 Part 2 section 14.5). Encrypted by
/// the TPM.
public struct SavedContext: Hashable, Sendable {
    /// The TPM's count of saved contexts.
    public let sequence: UInt64
    /// What kind of thing it was.
    public let savedHandle: TPMHandle
    /// The hierarchy that it belongs to.
    public let hierarchy: TPMHandle
    /// The context, which the TPM has encrypted.
    public let blob: [UInt8]
}

extension SavedContext: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        sequence = try reader.read()
        savedHandle = try reader.read()
        hierarchy = try reader.read()
        blob = try reader.readSized(maximum: TPM.maximumMessageBytes)
    }

    public func marshal(into writer: inout TPMWriter) {
        writer.write(sequence)
        writer.write(savedHandle)
        writer.write(hierarchy)
        writer.writeSized(blob)
    }
}
