/// The result of `Create`: an object that its parent wrapped, with proof of its creation.
package struct CreatedObject: Hashable, Sendable {
    /// The private part, wrapped by the parent.
    package let privatePart: PrivateBlob
    /// The public area.
    package let publicArea: PublicArea
    /// The creation data.
    package let creationData: CreationData
    /// The digest that `CertifyCreation` requires.
    package let creationHash: [UInt8]
    /// The ticket that `CertifyCreation` requires.
    package let creationTicket: Ticket
}

/// The private part of an object, wrapped by its parent: the content of a `TPM2B_PRIVATE` (TPM 2.0
/// Part 2 section 12.3.7). Only the parent can decrypt it.
package struct PrivateBlob: Hashable, Sendable {
    /// The maximum size in bytes that this library accepts.
    package static let maximumBytes = 1536

    /// The encrypted bytes.
    package let bytes: [UInt8]

    /// Wraps the bytes.
    ///
    /// - Returns: nil for no bytes, or more than 1536.
    package init?(bytes: [UInt8]) {
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

extension CreatedObject: TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        privatePart = try reader.read()
        publicArea = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
        creationData = try reader.readSized(CreationData.self, maximum: 1024)
        creationHash = try reader.readSized(maximum: 64)
        creationTicket = try reader.read()
    }
}

/// The circumstances in which an object was created, `TPMS_CREATION_DATA` (TPM 2.0 Part 2 section
/// 15.1). Other fields are checked and discarded.
package struct CreationData: Hashable, Sendable {
    /// The parent's Name.
    package let parentName: TPMName
    /// The data of the caller of `Create`.
    package let outsideInfo: [UInt8]
}

extension CreationData: TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        _ = try reader.readList(maximum: 16) as [PCRSelection]
        // pcrDigest, locality and parentNameAlg.
        _ = try reader.readSized(maximum: 64)
        _ = try reader.readBytes(1)
        _ = try reader.read(TPMAlgorithm.self)
        parentName = try reader.read()
        // The parent's qualified Name.
        _ = try reader.readSized(maximum: TPMName.maximumBytes)
        outsideInfo = try reader.readSized(maximum: 64)
    }

    /// A hash algorithm and a bitmap of PCRs, `TPMS_PCR_SELECTION` (section 10.6.2).
    private struct PCRSelection: TPMUnmarshallable {
        init(from reader: inout TPMReader) throws(TPMError) {
            _ = try reader.read(TPMAlgorithm.self)
            let count = Int(try reader.read(UInt8.self))
            guard count <= 4 else {
                throw .malformed("a PCR bitmap has \(count) bytes and may have 4")
            }
            _ = try reader.readBytes(count)
        }
    }
}

/// The TPM's proof of an earlier operation: `TPMT_TK_CREATION`, `_VERIFIED`, `_AUTH`, `_HASHCHECK`
/// (TPM 2.0 Part 2 section 10.7).
package struct Ticket: Hashable, Sendable {
    /// The kind of operation (`TPM_ST_…`).
    package let tag: UInt16
    /// The hierarchy whose secret keys the HMAC.
    package let hierarchy: TPMHandle
    /// The HMAC.
    package let digest: [UInt8]

    /// The null ticket for a digest that the TPM did not compute. Keys that are not restricted
    /// accept it.
    package static let nullHashCheck = Ticket(tag: 0x8024, hierarchy: .null, digest: [])
}

extension Ticket: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        tag = try reader.read()
        hierarchy = try reader.read()
        digest = try reader.readSized(maximum: 64)
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(tag, hierarchy, TPM2B(digest))
    }
}
