/// `TPMS_RSA_PARMS` (TPM 2.0 Part 2 section 12.2.3.5).
public struct RSAParameters: Hashable, Sendable {
    /// With what a storage key wraps its children, or null.
    public var symmetric: SymmetricDefinition
    /// The only scheme that the key serves, or null for any.
    public var scheme: Scheme
    /// The modulus's length in bits.
    public var keyBits: UInt16
    /// The public exponent; 0 stands for 65537.
    public var exponent: UInt32

    /// Parameters of a key.
    public init(symmetric: SymmetricDefinition = .null, scheme: Scheme = .null, keyBits: UInt16, exponent: UInt32 = 0) {
        self.symmetric = symmetric
        self.scheme = scheme
        self.keyBits = keyBits
        self.exponent = exponent
    }
}

extension RSAParameters: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        symmetric = try reader.read()
        scheme = try reader.read()
        keyBits = try reader.read()
        exponent = try reader.read()
    }

    public func marshal(into writer: inout TPMWriter) {
        writer.write(symmetric)
        writer.write(scheme)
        writer.write(keyBits)
        writer.write(exponent)
    }
}
