/// A signature, `TPMT_SIGNATURE` (TPM 2.0 Part 2 section 11.3.4).
public enum TPMSignature: Hashable, Sendable {
    /// An ECDSA signature: `r` and `s`, big-endian.
    case ecdsa(hash: TPMAlgorithm, r: [UInt8], s: [UInt8])
    /// An RSASSA or RSAPSS signature.
    case rsa(scheme: TPMAlgorithm, hash: TPMAlgorithm, signature: [UInt8])
}

extension TPMSignature: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        let scheme = try reader.read(TPMAlgorithm.self)
        switch scheme {
        case .ecdsa:
            self = .ecdsa(
                hash: try reader.read(),
                r: try reader.readSized(maximum: ECCPoint.maximumCoordinate),
                s: try reader.readSized(maximum: ECCPoint.maximumCoordinate))
        case .rsassa, .rsapss:
            self = .rsa(
                scheme: scheme, hash: try reader.read(),
                signature: try reader.readSized(maximum: 512))
        default:
            throw .malformed(
                "a signature has the unknown scheme 0x\(String(scheme.rawValue, radix: 16))")
        }
    }

    package func marshal(into writer: inout TPMWriter) {
        switch self {
        case .ecdsa(let hash, let r, let s):
            writer.write(TPMAlgorithm.ecdsa, hash, TPM2B(r), TPM2B(s))
        case .rsa(let scheme, let hash, let signature):
            writer.write(scheme, hash, TPM2B(signature))
        }
    }
}
