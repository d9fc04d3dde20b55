/// The circumstances of an object's birth, `TPMS_CREATION_DATA` (TPM 2.0 Part 2 section 15.1).
public struct CreationData: Hashable, Sendable {
    /// The hash algorithm and the bitmap of each bank of PCRs.
    public let pcrSelection: [PCRSelection]
    /// The digest of the selected PCRs.
    public let pcrDigest: [UInt8]
    /// The locality from which the command came, a bitmap (section 8.5).
    public let locality: UInt8
    /// The hash of the parent's Name.
    public let parentNameAlgorithm: TPMAlgorithm
    /// The parent's Name.
    public let parentName: TPMName
    /// The parent's qualified Name.
    public let parentQualifiedName: TPMName
    /// What the caller had added.
    public let outsideInfo: [UInt8]

    /// `TPMS_PCR_SELECTION` (section 10.6.2).
    public struct PCRSelection: Hashable, Sendable {
        /// The bank.
        public let hash: TPMAlgorithm
        /// A bit for each PCR, the first in the lowest bit of the first byte.
        public let bitmap: [UInt8]
    }
}

extension CreationData: TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        pcrSelection = try reader.readList(maximum: 16) { (reader) throws(TPMError) in
            let hash = try reader.read(TPMAlgorithm.self)
            let count = Int(try reader.read(UInt8.self))
            guard count <= 4 else { throw .malformed("a PCR bitmap has \(count) bytes and may have 4") }
            return PCRSelection(hash: hash, bitmap: try reader.readBytes(count))
        }
        pcrDigest = try reader.readSized(maximum: 64)
        locality = try reader.read()
        parentNameAlgorithm = try reader.read()
        parentName = TPMName(bytes: try reader.readSized(maximum: TPMName.maximumBytes))
        parentQualifiedName = TPMName(bytes: try reader.readSized(maximum: TPMName.maximumBytes))
        outsideInfo = try reader.readSized(maximum: 64)
    }
}
