extension TPM {
    /// `TPM2_NV_ReadPublic` (Part 3 section 31.6). The response carries no proof: an attacker on the bus can forge it.
    public func nvReadPublic(_ handle: TPMHandle) throws(TPMError) -> NVIndex {
        try nvReadPublic(HandleOnly(handle: handle))
    }

    /// Returns the index at a place, or nil for a free place, with the TPM's proof of either: `TPM2_GetCapability`, and
    /// where the place is taken `TPM2_NV_ReadPublic` twice, since a session needs the Name of the index.
    ///
    /// An error response carries no proof, so `TPM_RC_HANDLE` alone does not show that an index is gone.
    ///
    /// - Parameter session: An HMAC session that is salted to a key which the caller knows to be the TPM's.
    package func provenIndex(at place: TPMHandle, auditedBy session: Session) throws(TPMError) -> NVIndex? {
        guard try handles(from: place, count: 1, auditedBy: session).first == place else { return nil }
        do {
            return try nvReadPublic(nvReadPublic(place), authorizedBy: [.continuing(session, protecting: .audit)])
        } catch {
            // The session has just proven itself, so that a refusal of its proof is one of the Name.
            switch error.responseCode {
            case .handle?, .badAuth?, .authFail?:
                throw TPMError(
                    .forged, command: .nvReadPublic,
                    reason: "it says that an index is missing, but the TPM proved that the index exists")
            default: throw error
            }
        }
    }

    private func nvReadPublic(
        _ entity: any TPMEntity, authorizedBy authorizations: [Authorization] = []
    ) throws(TPMError) -> NVIndex {
        try execute(.nvReadPublic, on: [entity], authorizedBy: authorizations) { (reader, _) throws(TPMError) in
            let index = try NVIndex(publicArea: try reader.readSized(NVPublicArea.self, maximum: 256))
            let name = TPMName(bytes: try reader.readSized(maximum: TPMName.maximumBytes))
            guard index.name == name, index.handle == entity.handle else {
                throw .forged("the Name is not that of the index")
            }
            return index
        }
    }

    /// `TPM2_NV_Read` (Part 3 section 31.13) of the whole index, in pieces that every TPM can return.
    ///
    /// - Parameters:
    ///   - entity: Who authorizes: the owner, where the index lets it; nil for the index itself.
    public func nvRead(
        _ index: NVIndex, by entity: (any TPMEntity)? = nil, authorizedBy authorization: Authorization = .emptyPassword
    ) throws(TPMError) -> [UInt8] {
        var data: [UInt8] = []
        while data.count < Int(index.publicArea.dataSize) {
            let count = min(512, Int(index.publicArea.dataSize) - data.count)
            data += try nvRead(index, by: entity ?? index, offset: data.count, count: count, authorization)
        }
        return data
    }

    /// `TPM2_NV_Read` of a whole index that holds a secret of at most 512 bytes. Authorize it by a session with the
    /// attribute `encrypt`.
    ///
    /// - Parameter body: Gets the data. The memory is cleared when it returns.
    public func nvRead<R>(
        _ index: NVIndex, authorizedBy authorization: Authorization, _ body: (UnsafeRawBufferPointer) -> R
    ) throws(TPMError) -> R {
        var data = try nvRead(
            index, by: index, offset: 0, count: Int(index.publicArea.dataSize), authorization)
        defer { data.withUnsafeMutableBytes { wipeMemory($0) } }
        return data.withUnsafeBytes(body)
    }

    private func nvRead(
        _ index: NVIndex, by entity: any TPMEntity, offset: Int, count: Int, _ authorization: Authorization
    ) throws(TPMError) -> [UInt8] {
        var parameters = TPMWriter()
        parameters.write(UInt16(count))
        parameters.write(UInt16(offset))
        return try execute(.nvRead, on: [entity, index], authorizedBy: [authorization], parameters: parameters) {
            (reader, _) throws(TPMError) in
            let piece = try reader.readSized(maximum: count)
            guard piece.count == count else { throw .malformed("an index returned \(piece.count) bytes of \(count)") }
            return piece
        }
    }
}
