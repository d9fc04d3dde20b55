/// What is public about an NV index, `TPMS_NV_PUBLIC` (TPM 2.0 Part 2 section 13.5).
public struct NVPublicArea: Hashable, Sendable {
    public let index: TPMHandle
    public let nameAlgorithm: TPMAlgorithm
    /// `TPMA_NV`, as it came.
    public let attributes: UInt32
    public let authPolicy: [UInt8]
    /// In bytes.
    public let dataSize: UInt16

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
        attributes = try reader.read()
        authPolicy = try reader.readSized(maximum: 64)
        dataSize = try reader.read()
    }

    public func marshal(into writer: inout TPMWriter) {
        writer.write(index)
        writer.write(nameAlgorithm)
        writer.write(attributes)
        writer.writeSized(authPolicy)
        writer.write(dataSize)
    }
}
