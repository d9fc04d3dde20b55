/// A structure that has a wire form.
public protocol TPMMarshallable {
    /// Writes the structure as the specification lays it out.
    func marshal(into writer: inout TPMWriter)
}

/// A structure that can be read from its wire form.
public protocol TPMUnmarshallable {
    /// - Throws: ``TPMError`` of kind `malformed`.
    init(from reader: inout TPMReader) throws(TPMError)
}

extension TPMMarshallable {
    /// The wire form.
    public var marshalled: [UInt8] {
        var writer = TPMWriter()
        marshal(into: &writer)
        return writer.bytes
    }
}

extension TPMUnmarshallable {
    /// Reads a structure from bytes that hold it and nothing else.
    ///
    /// - Throws: ``TPMError`` of kind `malformed`.
    public init(unmarshalling bytes: some Collection<UInt8>) throws(TPMError) {
        var reader = TPMReader(bytes)
        self = try Self(from: &reader)
        try reader.finish()
    }
}
