extension TPM {
    /// `TPM2_ReadPublic` (Part 3 section 12.4).
    ///
    /// The Name is recomputed and compared; that shows transmission errors, and says nothing about who answered.
    /// Compare the public area with a pinned one before salting a session to it.
    public func readPublic(_ handle: TPMHandle) throws(TPMError) -> TPMObject {
        let unnamed = HandleOnly(handle: handle)
        return try execute(.readPublic, on: [unnamed]) { (reader, _) throws(TPMError) in
            let publicArea = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
            let name = TPMName(bytes: try reader.readSized(maximum: TPMName.maximumBytes))
            _ = try reader.readSized(maximum: TPMName.maximumBytes)
            let object = try TPMObject(handle: handle, publicArea: publicArea)
            guard object.name == name else { throw .forged("the Name is not that of the public area") }
            return object
        }
    }
}

/// A handle whose Name is not known, for commands without authorization.
struct HandleOnly: TPMEntity {
    let handle: TPMHandle
    var name: TPMName { TPMName(of: handle) }
}
