internal import Crypto

extension TPM {
    /// `TPM2_Create` (Part 3 section 12.1): makes an object under `parent`. Nothing stays in the TPM.
    ///
    /// - Parameters:
    ///   - authValue: What will authorize its use.
    ///   - data: What to seal, for a keyed-hash object; at most 128 bytes. Encrypt it and `authValue` by a session with
    ///     the attribute `decrypt`.
    public func create(
        _ template: PublicArea, authValue: AuthValue = .empty, sealing data: UnsafeRawBufferPointer? = nil,
        under parent: TPMObject, authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> CreatedObject {
        // Both writers have room for all that they will hold, so that they leave no copies of the secrets behind.
        var sensitive = TPMWriter(capacity: 4 + authValue.count + (data?.count ?? 0))
        defer { sensitive.wipe() }
        authValue.key.withUnsafeBytes { sensitive.writeSized($0) }
        sensitive.writeSized(data ?? UnsafeRawBufferPointer(start: nil, count: 0))
        var parameters = TPMWriter(capacity: 1024)
        defer { parameters.wipe() }
        parameters.writeSized(sensitive.bytes)
        parameters.writeSized(template)
        parameters.writeSized([])
        parameters.write(UInt32(0))
        return try execute(.create, on: [parent], authorizedBy: [authorization], parameters: parameters) {
            (reader, _) throws(TPMError) in
            CreatedObject(
                privatePart: try reader.read(),
                publicArea: try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes),
                creationData: try reader.readSized(CreationData.self, maximum: 1024),
                creationHash: try reader.readSized(maximum: 64), creationTicket: try reader.read())
        }
    }
}
