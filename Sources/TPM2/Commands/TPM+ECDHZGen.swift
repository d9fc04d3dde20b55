extension TPM {
    /// `TPM2_ECDH_ZGen` (Part 3 section 14.5): multiplies a point by the key.
    public func ecdhZGen(
        _ point: ECCPoint, with key: TPMObject, authorizedBy authorization: Authorization
    ) throws(TPMError) -> ECCPoint {
        var parameters = TPMWriter()
        parameters.writeSized(point)
        return try execute(.ecdhZGen, on: [key], authorizedBy: [authorization], parameters: parameters) {
            (reader, _) throws(TPMError) in try reader.readSized(ECCPoint.self, maximum: 256)
        }
    }
}
