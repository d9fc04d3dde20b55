/// What is public about an NV index, `TPMS_NV_PUBLIC` (TPM 2.0 Part 2 section 13.5).
public struct NVPublicArea: Hashable, Sendable {
    /// Its handle.
    public let index: TPMHandle
    /// The hash of its Name and of its policy.
    public let nameAlgorithm: TPMAlgorithm
    /// What may be done with it, and by whom.
    public let attributes: NVAttributes
    /// The digest of its policy, or empty.
    public let authPolicy: [UInt8]
    /// In bytes.
    public let dataSize: UInt16

    /// The public area of an index that is to be made.
    public init(
        index: TPMHandle, nameAlgorithm: TPMAlgorithm = .sha256, attributes: NVAttributes, authPolicy: [UInt8] = [],
        dataSize: UInt16
    ) {
        self.index = index
        self.nameAlgorithm = nameAlgorithm
        self.attributes = attributes
        self.authPolicy = authPolicy
        self.dataSize = dataSize
    }

    /// The same index after its first write, which its Name shows.
    public var written: NVPublicArea {
        NVPublicArea(
            index: index, nameAlgorithm: nameAlgorithm, attributes: attributes.union(.written), authPolicy: authPolicy,
            dataSize: dataSize)
    }

    /// `nameAlg ‖ H(marshalled public area)`.
    public var name: TPMName {
        get throws(TPMError) {
            TPMName(bytes: nameAlgorithm.marshalled + (try nameAlgorithm.digest(of: marshalled)))
        }
    }
}

extension NVPublicArea: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        index = try reader.read()
        nameAlgorithm = try reader.read()
        attributes = NVAttributes(rawValue: try reader.read())
        authPolicy = try reader.readSized(maximum: 64)
        dataSize = try reader.read()
    }

    public func marshal(into writer: inout TPMWriter) {
        writer.write(index)
        writer.write(nameAlgorithm)
        writer.write(attributes.rawValue)
        writer.writeSized(authPolicy)
        writer.write(dataSize)
    }
}
