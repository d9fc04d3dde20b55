/// Asymmetric primitives, random numbers and signatures, TPM 2.0 Part 3 sections 14, 16 and 20.
extension TPM {
    /// `TPM2_ECDH_ZGen` (section 14.5): multiplies a point by the private key.
    public func ecdhZGen(
        _ point: ECCPoint, with key: TPMObject, authorizedBy authorization: Authorization
    ) throws(TPMError) -> ECCPoint {
        try execute(
            .ecdhZGen, on: [key], authorizedBy: [authorization], parameters: TPMWriter(TPM2B(point))
        ) {
            (reader, _) throws(TPMError) in try reader.readSized(ECCPoint.self, maximum: 256)
        }
    }

    /// `TPM2_GetRandom` (section 16.1).
    ///
    /// - Parameter count: The number of bytes. A TPM returns at most the size of its largest
    ///   digest.
    public func getRandom(_ count: UInt16) throws(TPMError) -> [UInt8] {
        try execute(.getRandom, parameters: TPMWriter(count)) { (reader, _) throws(TPMError) in
            try reader.readSized(maximum: Int(count))
        }
    }

    /// `TPM2_VerifySignature` (section 20.1).
    ///
    /// - Throws: ``TPMError`` with the response code `signature` when the signature is not valid.
    package func verifySignature(
        _ signature: TPMSignature, over digest: [UInt8], by key: TPMObject
    ) throws(TPMError) -> Ticket {
        try result(of: .verifySignature, on: [key], parameters: TPMWriter(TPM2B(digest), signature))
    }

    /// `TPM2_Sign` (section 20.2) with a key that is not restricted.
    ///
    /// - Parameters:
    ///   - digest: A digest of the length that the scheme's hash has.
    ///   - scheme: The scheme, or null if the public area of the key has one.
    public func sign(
        _ digest: [UInt8], with key: TPMObject, scheme: Scheme = .null,
        authorizedBy authorization: Authorization
    ) throws(TPMError) -> TPMSignature {
        try result(
            of: .sign, on: [key], authorizedBy: [authorization],
            parameters: Self.signParameters(digest, scheme))
    }

    /// The cpHash of ``sign(_:with:scheme:authorizedBy:)``, to which an approval of this digest and
    /// this key is bound.
    package static func signCommandHash(
        _ digest: [UInt8], with key: TPMName, scheme: Scheme = .null
    ) -> [UInt8] {
        ParameterHash.command(.sign, names: [key], parameters: signParameters(digest, scheme).bytes)
    }

    private static func signParameters(_ digest: [UInt8], _ scheme: Scheme) -> TPMWriter {
        TPMWriter(TPM2B(digest), scheme, Ticket.nullHashCheck)
    }
}
