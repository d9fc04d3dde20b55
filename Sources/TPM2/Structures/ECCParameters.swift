/// `TPMS_ECC_PARMS` (TPM 2.0 Part 2 section 12.2.3.6).
public struct ECCParameters: Hashable, Sendable {
    /// The cipher that protects children, for a storage key.
    public var symmetric: SymmetricDefinition
    /// The only scheme that the key serves, or null for any.
    public var scheme: Scheme
    /// The curve.
    public var curve: ECCCurve
    /// The key derivation; no TPM implements another than null.
    public var kdf: Scheme

    /// Parameters of a key.
    public init(
        symmetric: SymmetricDefinition = .null, scheme: Scheme = .null, curve: ECCCurve = .nistP256, kdf: Scheme = .null
    ) {
        self.symmetric = symmetric
        self.scheme = scheme
        self.curve = curve
        self.kdf = kdf
    }
}

extension ECCParameters: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        symmetric = try reader.read()
        scheme = try reader.read()
        curve = ECCCurve(rawValue: try reader.read())
        kdf = try reader.read()
    }

    public func marshal(into writer: inout TPMWriter) {
        writer.write(symmetric)
        writer.write(scheme)
        writer.write(curve.rawValue)
        writer.write(kdf)
    }
}
