extension TPM {
    /// `TPM2_CreatePrimary` (Part 3 section 24.1): makes a key from a hierarchy's seed. The same template makes the
    /// same key until the hierarchy is cleared.
    ///
    /// The object stays in the TPM until it is flushed; ``withPrimary(_:in:authorizedBy:_:)`` does that.
    public func createPrimary(
        _ template: PublicArea, in hierarchy: Hierarchy, authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> TPMObject {
        var parameters = TPMWriter()
        // TPM2B_SENSITIVE_CREATE: neither authValue nor data.
        parameters.writeSized([0, 0, 0, 0])
        parameters.writeSized(template)
        parameters.writeSized([])
        parameters.write(UInt32(0))
        return try execute(
            .createPrimary, on: [hierarchy], authorizedBy: [authorization], parameters: parameters, returnsHandle: true
        ) { (reader, handle) throws(TPMError) in
            let publicArea = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
            _ = try reader.readSized(CreationData.self, maximum: 1024)
            _ = try reader.readSized(maximum: 64)
            _ = try reader.read(Ticket.self)
            let object = try TPMObject(handle: handle, publicArea: publicArea)
            let name = TPMName(bytes: try reader.readSized(maximum: TPMName.maximumBytes))
            guard object.name == name else { throw .forged("the Name is not that of the public area") }
            return object
        }
    }
}
