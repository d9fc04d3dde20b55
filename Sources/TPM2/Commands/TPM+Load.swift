extension TPM {
    /// `TPM2_Load` (Part 3 section 12.2). The object stays until it is flushed; ``withLoaded(_:_:under:authorizedBy:_:)``
    /// does that.
    ///
    /// - Throws: ``TPMError`` of kind `forged` when the TPM loaded something with another Name.
    public func load(
        _ privatePart: PrivateBlob, _ publicArea: PublicArea, under parent: TPMObject,
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> TPMObject {
        var parameters = TPMWriter()
        parameters.write(privatePart)
        parameters.writeSized(publicArea)
        return try execute(
            .load, on: [parent], authorizedBy: [authorization], parameters: parameters, returnsHandle: true
        ) { (reader, handle) throws(TPMError) in
            try Self.named(TPMObject(handle: handle, publicArea: publicArea), &reader)
        }
    }

    /// `TPM2_LoadExternal` (Part 3 section 12.3) of a public key. The object stays until it is flushed.
    public func loadExternal(_ publicArea: PublicArea, in hierarchy: Hierarchy = .null) throws(TPMError) -> TPMObject {
        var parameters = TPMWriter()
        parameters.writeSized([])
        parameters.writeSized(publicArea)
        parameters.write(hierarchy.handle)
        return try execute(.loadExternal, parameters: parameters, returnsHandle: true) {
            (reader, handle) throws(TPMError) in
            try Self.named(TPMObject(handle: handle, publicArea: publicArea), &reader)
        }
    }

    private static func named(_ object: TPMObject, _ reader: inout TPMReader) throws(TPMError) -> TPMObject {
        let name = TPMName(bytes: try reader.readSized(maximum: TPMName.maximumBytes))
        guard object.name == name else { throw .forged("the Name is not that of the object") }
        return object
    }
}
