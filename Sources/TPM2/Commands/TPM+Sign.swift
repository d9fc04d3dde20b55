extension TPM {
    /// `TPM2_Sign` (Part 3 section 20.2) with a key that is not restricted.
    ///
    /// - Parameters:
    ///   - digest: As long as the scheme's hash is.
    ///   - scheme: Null for a key that has one of its own.
    public func sign(
        _ digest: [UInt8], with key: TPMObject, scheme: Scheme = .null, authorizedBy authorization: Authorization
    ) throws(TPMError) -> TPMSignature {
        let parameters = Self.signParameters(digest, scheme)
        return try execute(.sign, on: [key], authorizedBy: [authorization], parameters: parameters) {
            (reader, _) throws(TPMError) in try reader.read()
        }
    }

    /// The cpHash of ``sign(_:with:scheme:authorizedBy:)``: what an approval of this digest and this key is bound to.
    public static func signCommandHash(_ digest: [UInt8], with key: TPMName, scheme: Scheme = .null) -> [UInt8] {
        ParameterHash.command(.sign, names: [key], parameters: signParameters(digest, scheme).bytes)
    }

    private static func signParameters(_ digest: [UInt8], _ scheme: Scheme) -> TPMWriter {
        var parameters = TPMWriter()
        parameters.writeSized(digest)
        parameters.write(scheme)
        parameters.write(Ticket.nullHashCheck)
        return parameters
    }
}
