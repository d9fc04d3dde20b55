/// The result of `Create`: an object that its parent wrapped, with proof of its creation.
public struct CreatedObject: Hashable, Sendable {
    /// The private part, wrapped by the parent.
    public let privatePart: PrivateBlob
    /// The public area.
    public let publicArea: PublicArea
    /// The creation data.
    package let creationData: CreationData
    /// The digest that `CertifyCreation` requires.
    package let creationHash: [UInt8]
    /// The ticket that `CertifyCreation` requires.
    package let creationTicket: Ticket
}

/// The private part of an object, wrapped by its parent: the content of a `TPM2B_PRIVATE` (TPM 2.0 Part 2 section 12.3.7).
/// Only the parent can decrypt it.
public struct PrivateBlob: Hashable, Sendable {
    /// The maximum size in bytes that this library accepts.
    public static let maximumBytes = 1536

    /// The encrypted bytes.
    public let bytes: [UInt8]

    /// Wraps the bytes.
    ///
    /// - Returns: nil for no bytes, or more than ``maximumBytes``.
    public init?(bytes: [UInt8]) {
        guard (1...Self.maximumBytes).contains(bytes.count) else { return nil }
        self.bytes = bytes
    }
}

extension PrivateBlob: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        bytes = try reader.readSized(maximum: Self.maximumBytes)
        guard !bytes.isEmpty else { throw .malformed("a private part is empty") }
    }

    package func marshal(into writer: inout TPMWriter) { writer.writeSized(bytes) }
}

/// The circumstances in which an object was created, `TPMS_CREATION_DATA` (TPM 2.0 Part 2 section 15.1).
package struct CreationData: Hashable, Sendable {
    /// The selected PCRs of each bank.
    package let pcrSelection: [PCRSelection]
    /// The digest of the selected PCRs.
    package let pcrDigest: [UInt8]
    /// The locality of the command, a bitmap (section 8.5).
    package let locality: UInt8
    /// The hash algorithm of the parent's Name.
    package let parentNameAlgorithm: TPMAlgorithm
    /// The parent's Name.
    package let parentName: TPMName
    /// The parent's qualified Name.
    package let parentQualifiedName: TPMName
    /// The data that the caller added.
    package let outsideInfo: [UInt8]

    /// The selected PCRs of a bank, `TPMS_PCR_SELECTION` (section 10.6.2).
    package struct PCRSelection: Hashable, Sendable {
        /// The hash algorithm of the bank.
        package let hash: TPMAlgorithm
        /// One bit for each PCR. The lowest bit of the first byte is PCR 0.
        package let bitmap: [UInt8]
    }
}

extension CreationData: TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
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

/// The TPM's proof of an earlier operation: `TPMT_TK_CREATION`, `_VERIFIED`, `_AUTH`, `_HASHCHECK` (TPM 2.0 Part 2 section
/// 10.7).
package struct Ticket: Hashable, Sendable {
    /// The kind of operation (`TPM_ST_…`).
    package let tag: UInt16
    /// The hierarchy whose secret keys the HMAC.
    package let hierarchy: TPMHandle
    /// The HMAC.
    package let digest: [UInt8]

    /// The null ticket for a digest that the TPM did not compute. Keys that are not restricted accept it.
    package static let nullHashCheck = Ticket(tag: 0x8024, hierarchy: .null, digest: [])
}

extension Ticket: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        tag = try reader.read()
        hierarchy = try reader.read()
        digest = try reader.readSized(maximum: 64)
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(tag)
        writer.write(hierarchy)
        writer.writeSized(digest)
    }
}
