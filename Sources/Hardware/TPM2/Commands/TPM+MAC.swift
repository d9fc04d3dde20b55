/// Keyed digests, TPM 2.0 Part 3 section 15.5.
extension TPM {
    /// `TPM2_HMAC` (section 15.5) with HMAC-SHA-256. A TPM may lack this command: see
    /// ``hasCommand(_:)``.
    ///
    /// To encrypt the result on the bus, authorize the command with a session that has the
    /// attribute `encrypt`.
    ///
    /// - Parameters:
    ///   - message: At most 1024 bytes.
    ///   - body: Receives the 32 bytes. The memory is erased when it returns.
    package func hmac<R>(
        of message: [UInt8], with key: TPMObject, authorizedBy authorization: Authorization,
        _ body: (UnsafeRawBufferPointer) -> R
    ) throws(TPMError) -> R {
        try execute(
            .hmac, on: [key], authorizedBy: [authorization],
            parameters: Self.hmacParameters(message)
        ) {
            (reader, _) throws(TPMError) in
            var code = try reader.readSized(maximum: 32)
            defer { code.withUnsafeMutableBytes { wipeMemory($0) } }
            guard code.count == 32 else { throw .malformed("an HMAC does not have 32 bytes") }
            return code.withUnsafeBytes(body)
        }
    }

    /// The cpHash of ``hmac(of:with:authorizedBy:_:)``, to which an approval of this message and
    /// this key is bound.
    package static func hmacCommandHash(_ message: [UInt8], with key: TPMName) -> [UInt8] {
        ParameterHash.command(.hmac, names: [key], parameters: hmacParameters(message).bytes)
    }

    private static func hmacParameters(_ message: [UInt8]) -> TPMWriter {
        TPMWriter(TPM2B(message), TPMAlgorithm.sha256)
    }
}
