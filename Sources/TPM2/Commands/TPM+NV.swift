extension TPM {
    /// `TPM2_NV_ReadPublic` (Part 3 section 31.6).
    public func nvReadPublic(_ handle: TPMHandle) throws(TPMError) -> NVIndex {
        try execute(.nvReadPublic, on: [HandleOnly(handle: handle)]) { (reader, _) throws(TPMError) in
            let index = try NVIndex(publicArea: try reader.readSized(NVPublicArea.self, maximum: 256))
            let name = TPMName(bytes: try reader.readSized(maximum: TPMName.maximumBytes))
            guard index.name == name, index.handle == handle else {
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
