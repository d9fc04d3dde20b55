/// An NV index: a piece of the TPM's non-volatile memory.
package struct NVIndex: TPMEntity, Hashable, Sendable {
    /// The handle.
    package let handle: TPMHandle
    /// The public area.
    package let publicArea: NVPublicArea
    /// The Name.
    package let name: TPMName

    /// Creates an index from its public area.
    ///
    /// - Throws: ``TPMError`` of kind `unsupported` when the Name's hash algorithm is not
    ///   supported.
    package init(publicArea: NVPublicArea) throws(TPMError) {
        self.publicArea = publicArea
        handle = publicArea.index
        name = try publicArea.name
    }
}

extension NVIndex: TPMUnmarshallable {
    /// Reads the public area.
    package init(from reader: inout TPMReader) throws(TPMError) {
        try self.init(publicArea: reader.read())
    }
}

/// The public area of an NV index, `TPMS_NV_PUBLIC` (TPM 2.0 Part 2 section 13.5).
package struct NVPublicArea: Hashable, Sendable {
    /// The handle.
    package let index: TPMHandle
    /// The hash algorithm of the Name and of the policy.
    package let nameAlgorithm: TPMAlgorithm
    /// The permitted operations and their authorizations.
    package private(set) var attributes: NVAttributes
    /// The digest of the policy, or empty.
    package let authPolicy: [UInt8]
    /// The size of the content in bytes.
    package let dataSize: UInt16

    /// Creates the public area of a new index.
    package init(
        index: TPMHandle, nameAlgorithm: TPMAlgorithm = .sha256, attributes: NVAttributes,
        authPolicy: [UInt8] = [],
        dataSize: UInt16
    ) {
        self.index = index
        self.nameAlgorithm = nameAlgorithm
        self.attributes = attributes
        self.authPolicy = authPolicy
        self.dataSize = dataSize
    }

    /// The public area after the first write, which changes the Name.
    package var written: NVPublicArea {
        var area = self
        area.attributes.insert(.written)
        return area
    }

    /// `nameAlg ‖ H(marshalled public area)`.
    package var name: TPMName {
        get throws(TPMError) { try nameAlgorithm.name(of: marshalled) }
    }
}

extension NVPublicArea: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        index = try reader.read()
        nameAlgorithm = try reader.read()
        attributes = try reader.read()
        authPolicy = try reader.readSized(maximum: 64)
        dataSize = try reader.read()
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(index, nameAlgorithm, attributes, TPM2B(authPolicy), dataSize)
    }
}

/// The permitted operations of an NV index and their authorizations, `TPMA_NV` (TPM 2.0 Part 2
/// section 13.4).
package struct NVAttributes: OptionSet, TPMNumber, Hashable, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// The owner may write.
    package static let ownerWrite = NVAttributes(rawValue: 1 << 1)
    /// The authValue authorizes writing.
    package static let authWrite = NVAttributes(rawValue: 1 << 2)
    /// The policy authorizes writing.
    package static let policyWrite = NVAttributes(rawValue: 1 << 3)
    /// `TPM_NT_COUNTER` in the type field: 8 bytes that only increase, even after the index is
    /// deleted and defined again.
    package static let counter = NVAttributes(rawValue: 0x1 << 4)
    /// `TPM_NT_PIN_FAIL` in the type field: 4 bytes of consecutive failures, 4 bytes of the limit.
    package static let pinFail = NVAttributes(rawValue: 0x8 << 4)
    /// The owner may read.
    package static let ownerRead = NVAttributes(rawValue: 1 << 17)
    /// The authValue authorizes reading.
    package static let authRead = NVAttributes(rawValue: 1 << 18)
    /// The dictionary-attack protection does not count wrong authorizations.
    package static let noDA = NVAttributes(rawValue: 1 << 25)
    /// The index was written. The TPM sets this attribute.
    package static let written = NVAttributes(rawValue: 1 << 29)
}
