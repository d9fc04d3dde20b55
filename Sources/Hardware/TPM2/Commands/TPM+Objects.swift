internal import Crypto

/// Object commands, TPM 2.0 Part 3 section 12.
extension TPM {
    /// `TPM2_Create` (section 12.1): creates an object under `parent`. The object is not loaded.
    ///
    /// - Parameters:
    ///   - authValue: The authValue of the new object.
    ///   - data: The data to seal in a keyed-hash object, at most 128 bytes. To encrypt the data
    ///     and `authValue` on the bus, authorize the command with a session that has the attribute
    ///     `decrypt`.
    public func create(
        _ template: PublicArea, authValue: AuthValue = .empty,
        sealing data: UnsafeRawBufferPointer? = nil,
        under parent: TPMObject, authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> CreatedObject {
        try create(
            template, authValue: authValue, sealing: data, outsideInfo: [], under: parent,
            authorizedBy: authorization)
    }

    /// `TPM2_Create`, with data of the caller in the creation data.
    ///
    /// - Parameter outsideInfo: At most 64 bytes. A verifier's challenge proves that the object was
    ///   created after it was issued.
    package func create(
        _ template: PublicArea, authValue: AuthValue = .empty,
        sealing data: UnsafeRawBufferPointer? = nil,
        outsideInfo: [UInt8], under parent: TPMObject,
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> CreatedObject {
        // Both writers have enough capacity, so that they leave no copies of the secrets in memory.
        var sensitive = TPMWriter(capacity: 4 + authValue.count + (data?.count ?? 0))
        defer { sensitive.wipe() }
        authValue.key.withUnsafeBytes { sensitive.writeSized($0) }
        sensitive.writeSized(data ?? UnsafeRawBufferPointer(start: nil, count: 0))
        var parameters = TPMWriter(capacity: 1024)
        defer { parameters.wipe() }
        parameters.writeSized(sensitive.bytes)
        parameters.write(TPM2B(template), TPM2B(outsideInfo), UInt32(0))
        return try result(
            of: .create, on: [parent], authorizedBy: [authorization], parameters: parameters)
    }

    /// Loads an object, lends it to `body`, and flushes it.
    public func withLoaded<R>(
        _ privatePart: PrivateBlob, _ publicArea: PublicArea, under parent: TPMObject,
        authorizedBy authorization: Authorization = .emptyPassword,
        _ body: (TPMObject) throws(TPMError) -> R
    ) throws(TPMError) -> R {
        try lending(load(privatePart, publicArea, under: parent, authorizedBy: authorization), body)
    }

    /// `TPM2_Load` (section 12.2). The object stays loaded until it is flushed, for example by
    /// ``withLoaded(_:_:under:authorizedBy:_:)``.
    ///
    /// - Throws: ``TPMError`` of kind `forged` when the TPM returned a different Name.
    package func load(
        _ privatePart: PrivateBlob, _ publicArea: PublicArea, under parent: TPMObject,
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> TPMObject {
        try execute(
            .load, on: [parent], authorizedBy: [authorization],
            parameters: TPMWriter(privatePart, TPM2B(publicArea)),
            returnsHandle: true
        ) { (reader, handle) throws(TPMError) in
            try Self.named(TPMObject(handle: handle, publicArea: publicArea), &reader)
        }
    }

    /// `TPM2_LoadExternal` (section 12.3) for a public key. The object stays loaded until it is
    /// flushed.
    package func loadExternal(_ publicArea: PublicArea, in hierarchy: Hierarchy = .null)
        throws(TPMError) -> TPMObject
    {
        let parameters = TPMWriter(TPM2B(), TPM2B(publicArea), hierarchy.handle)
        return try execute(.loadExternal, parameters: parameters, returnsHandle: true) {
            (reader, handle) throws(TPMError) in
            try Self.named(TPMObject(handle: handle, publicArea: publicArea), &reader)
        }
    }

    /// `TPM2_ReadPublic` (section 12.4).
    ///
    /// The Name is recomputed and compared, which detects transmission errors. It does not
    /// authenticate the TPM: compare the public area with a pinned one before you salt a session to
    /// it.
    public func readPublic(_ handle: TPMHandle) throws(TPMError) -> TPMObject {
        try execute(.readPublic, on: [UnnamedEntity(handle: handle)]) {
            (reader, _) throws(TPMError) in
            let publicArea = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
            let object = try Self.named(TPMObject(handle: handle, publicArea: publicArea), &reader)
            // The qualified Name.
            _ = try reader.read(TPMName.self)
            return object
        }
    }

    /// `TPM2_Unseal` (section 12.7). To encrypt the data on the bus, authorize the command with a
    /// session that has the attribute `encrypt`.
    ///
    /// - Parameter body: Receives the data. The memory is erased when it returns.
    public func unseal<R>(
        _ item: TPMObject, authorizedBy authorization: Authorization,
        _ body: (UnsafeRawBufferPointer) -> R
    ) throws(TPMError) -> R {
        try execute(.unseal, on: [item], authorizedBy: [authorization]) {
            (reader, _) throws(TPMError) in
            var data = try reader.readSized(maximum: 256)
            defer { data.withUnsafeMutableBytes { wipeMemory($0) } }
            return data.withUnsafeBytes(body)
        }
    }

    /// The cpHash of ``unseal(_:authorizedBy:_:)``, to which an approval of opening this item is
    /// bound.
    package static func unsealCommandHash(_ item: TPMName) -> [UInt8] {
        ParameterHash.command(.unseal, names: [item], parameters: [])
    }

    /// `TPM2_ObjectChangeAuth` (section 12.8): wraps the object with another authValue. The old
    /// private part stays valid with the old authValue.
    ///
    /// - Parameter authorization: An authorization in the ADMIN role. To encrypt the new authValue
    ///   on the bus, use a session that has the attribute `decrypt`.
    public func objectChangeAuth(
        of object: TPMObject, under parent: TPMObject, to newAuthValue: AuthValue,
        authorizedBy authorization: Authorization
    ) throws(TPMError) -> PrivateBlob {
        var parameters = TPMWriter(capacity: 64)
        defer { parameters.wipe() }
        newAuthValue.key.withUnsafeBytes { parameters.writeSized($0) }
        return try result(
            of: .objectChangeAuth, on: [object, parent], authorizedBy: [authorization],
            parameters: parameters)
    }

    /// Compares the Name in a response with that of the public area.
    static func named(_ object: TPMObject, _ reader: inout TPMReader) throws(TPMError) -> TPMObject
    {
        let name = try reader.read(TPMName.self)
        guard object.name == name else { throw .forged("the Name is not that of the public area") }
        return object
    }
}
