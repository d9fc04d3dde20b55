internal import Crypto

/// Non-volatile storage commands, TPM 2.0 Part 3 section 31.
extension TPM {
    /// `TPM2_NV_DefineSpace` (section 31.3), authorized by the owner.
    ///
    /// - Parameters:
    ///   - authValue: The authValue of the index. To encrypt it on the bus, use a session that has
    ///     the attribute `decrypt`.
    /// - Returns: The index, which is not yet written.
    @discardableResult
    package func nvDefineSpace(
        _ publicArea: NVPublicArea, authValue: AuthValue = .empty,
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> NVIndex {
        var parameters = TPMWriter(capacity: 512)
        defer { parameters.wipe() }
        authValue.key.withUnsafeBytes { parameters.writeSized($0) }
        parameters.write(TPM2B(publicArea))
        try executeWithoutResult(
            .nvDefineSpace, on: [Hierarchy.owner], authorizedBy: [authorization],
            parameters: parameters)
        return try NVIndex(publicArea: publicArea)
    }

    /// `TPM2_NV_UndefineSpace` (section 31.4), authorized by the owner, or by the platform for an
    /// index that it defined.
    package func nvUndefineSpace(
        _ index: NVIndex, by hierarchy: Hierarchy = .owner,
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) {
        try executeWithoutResult(
            .nvUndefineSpace, on: [hierarchy, index], authorizedBy: [authorization])
    }

    /// `TPM2_NV_ReadPublic` (section 31.6). The response is not authenticated: an attacker on the
    /// bus can forge it.
    package func nvReadPublic(_ handle: TPMHandle) throws(TPMError) -> NVIndex {
        try nvReadPublicArea(of: UnnamedEntity(handle: handle))
    }

    /// Returns the index at a handle, or nil for an unused handle. The TPM authenticates both
    /// answers: `TPM2_GetCapability`, and for a used handle `TPM2_NV_ReadPublic` twice, since a
    /// session needs the Name of the index.
    ///
    /// An error response is not authenticated, so `TPM_RC_HANDLE` alone does not prove that an
    /// index is gone.
    ///
    /// - Parameter session: An HMAC session that is salted to a key that the caller knows to be the
    ///   TPM's.
    package func provenIndex(at handle: TPMHandle, auditedBy session: Session) throws(TPMError)
        -> NVIndex?
    {
        guard try handles(from: handle, count: 1, auditedBy: session).first == handle else {
            return nil
        }
        do {
            return try nvReadPublicArea(
                of: nvReadPublic(handle), authorizedBy: [.continuing(session, protecting: .audit)])
        } catch {
            // The session has just authenticated itself, so an authorization failure is about the
            // Name.
            switch error.responseCode {
            case .handle?, .badAuth?, .authFail?:
                throw TPMError(
                    .forged, command: .nvReadPublic,
                    reason:
                        "the response says that an index is missing, but the TPM proved that it exists"
                )
            default: throw error
            }
        }
    }

    private func nvReadPublicArea(
        of entity: any TPMEntity, authorizedBy authorizations: [Authorization] = []
    ) throws(TPMError) -> NVIndex {
        try execute(.nvReadPublic, on: [entity], authorizedBy: authorizations) {
            (reader, _) throws(TPMError) in
            let index = try NVIndex(
                publicArea: try reader.readSized(NVPublicArea.self, maximum: 256))
            let name = try reader.read(TPMName.self)
            guard index.name == name, index.handle == entity.handle else {
                throw .forged("the Name is not that of the index")
            }
            return index
        }
    }

    /// `TPM2_NV_Write` (section 31.7) of the whole index.
    ///
    /// - Parameters:
    ///   - data: As many bytes as the index has, at most 512.
    ///   - entity: The authorizing entity, or nil for the index itself.
    package func nvWrite(
        _ data: some Collection<UInt8>, to index: NVIndex, by entity: (any TPMEntity)? = nil,
        authorizedBy authorization: Authorization
    ) throws(TPMError) {
        var parameters = TPMWriter(capacity: 1024)
        defer { parameters.wipe() }
        parameters.writeSized(data)
        parameters.write(UInt16(0))
        try executeWithoutResult(
            .nvWrite, on: [entity ?? index, index], authorizedBy: [authorization],
            parameters: parameters)
    }

    /// `TPM2_NV_Increment` (section 31.8) of a counter.
    ///
    /// - Parameter entity: The authorizing entity, or nil for the index itself.
    package func nvIncrement(
        _ index: NVIndex, by entity: (any TPMEntity)? = nil,
        authorizedBy authorization: Authorization
    ) throws(TPMError) {
        try executeWithoutResult(
            .nvIncrement, on: [entity ?? index, index], authorizedBy: [authorization])
    }

    /// `TPM2_NV_Read` (section 31.13) of the whole index, in parts of a size that all TPMs support.
    ///
    /// - Parameters:
    ///   - entity: The authorizing entity: the owner, if the index permits it, or nil for the index
    ///     itself.
    package func nvRead(
        _ index: NVIndex, by entity: (any TPMEntity)? = nil,
        authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> [UInt8] {
        var data: [UInt8] = []
        while data.count < Int(index.publicArea.dataSize) {
            let count = min(512, Int(index.publicArea.dataSize) - data.count)
            data += try nvReadPart(
                index, by: entity ?? index, offset: data.count, count: count, authorization)
        }
        return data
    }

    /// `TPM2_NV_Read` of a whole index that holds a secret of at most 512 bytes. To encrypt the
    /// secret on the bus, authorize the command with a session that has the attribute `encrypt`.
    ///
    /// - Parameter body: Receives the data. The memory is erased when it returns.
    package func nvRead<R>(
        _ index: NVIndex, authorizedBy authorization: Authorization,
        _ body: (UnsafeRawBufferPointer) -> R
    ) throws(TPMError) -> R {
        var data = try nvReadPart(
            index, by: index, offset: 0, count: Int(index.publicArea.dataSize), authorization)
        defer { data.withUnsafeMutableBytes { wipeMemory($0) } }
        return data.withUnsafeBytes(body)
    }

    private func nvReadPart(
        _ index: NVIndex, by entity: any TPMEntity, offset: Int, count: Int,
        _ authorization: Authorization
    ) throws(TPMError) -> [UInt8] {
        try execute(
            .nvRead, on: [entity, index], authorizedBy: [authorization],
            parameters: TPMWriter(UInt16(count), UInt16(offset))
        ) { (reader, _) throws(TPMError) in
            let part = try reader.readSized(maximum: count)
            guard part.count == count else {
                throw .malformed("an index returned \(part.count) bytes of \(count)")
            }
            return part
        }
    }

    /// `TPM2_NV_ChangeAuth` (section 31.15). The old authValue is no longer valid.
    ///
    /// - Parameter authorization: An authorization in the ADMIN role, which for an index is its
    ///   policy. To encrypt the new authValue on the bus, use a session that has the attribute
    ///   `decrypt`.
    package func nvChangeAuth(
        of index: NVIndex, to newAuthValue: AuthValue, authorizedBy authorization: Authorization
    ) throws(TPMError) {
        var parameters = TPMWriter(capacity: 64)
        defer { parameters.wipe() }
        newAuthValue.key.withUnsafeBytes { parameters.writeSized($0) }
        try executeWithoutResult(
            .nvChangeAuth, on: [index], authorizedBy: [authorization], parameters: parameters,
            newAuthValue: newAuthValue)
    }
}
