extension TPM {
    /// `TPM2_Unseal` (Part 3 section 12.7). Authorize it by a session with the attribute `encrypt`, so that the data
    /// crosses the bus encrypted.
    ///
    /// - Parameter body: Gets the data. The memory is cleared when it returns.
    public func unseal<R>(
        _ item: TPMObject, authorizedBy authorization: Authorization, _ body: (UnsafeRawBufferPointer) -> R
    ) throws(TPMError) -> R {
        try execute(.unseal, on: [item], authorizedBy: [authorization]) { (reader, _) throws(TPMError) in
            var data = try reader.readSized(maximum: 256)
            defer { data.withUnsafeMutableBytes { wipeMemory($0) } }
            return data.withUnsafeBytes(body)
        }
    }

    /// The cpHash of ``unseal(_:authorizedBy:_:)``: what an approval of opening this item is bound to.
    public static func unsealCommandHash(_ item: TPMName) -> [UInt8] {
        ParameterHash.command(.unseal, names: [item], parameters: [])
    }
}
