package import FoundationEssentials
package import Latchkey

/// JSON Web Signatures in compact form (RFC 7515 section 3.1).
package enum JWS {
    /// The text to sign: `base64url(header) . base64url(payload)`. Members are sorted, so the same
    /// values always give the same text.
    package static func signingInput(header: some Encodable, payload: some Encodable) throws
        -> String
    {
        try Base64URL.encode(CanonicalJSON.encode(header)) + "."
            + Base64URL.encode(CanonicalJSON.encode(payload))
    }

    /// The header of a request that a hardware key signs with ES256.
    package struct RequestHeader: Encodable {
        private let typ: String
        private let alg = "ES256"
        private let kid: String
        private let jwk: JWK?

        /// - Parameter includesKey: Whether the header contains the public key.
        package init(type: String, key: HardwareKey, includesKey: Bool) {
            typ = type
            kid = key.id.rawValue
            jwk = includesKey ? JWK(key.publicKey, kid: key.id) : nil
        }
    }

    /// The complete JWS with an ES256 signature.
    package static func compact(_ signingInput: String, signature: ECDSASignature) -> String {
        signingInput + "." + Base64URL.encode(signature.rawRepresentation)
    }

    /// The three parts of a compact JWS, decoded and not verified.
    package struct Parts: Sendable {
        /// The protected header, decoded: unverified JSON.
        package let header: Data
        /// The payload, decoded: unverified bytes.
        package let payload: Data
        /// The signature, decoded and not verified.
        package let signature: Data
        /// The signed text.
        package let signingInput: String
    }

    /// Splits and decodes a compact JWS. Verifies nothing.
    ///
    /// - Returns: nil unless there are exactly three parts in base64url.
    package static func parse(_ compact: String) -> Parts? {
        let parts = compact.split(separator: ".", omittingEmptySubsequences: false)
        guard
            parts.count == 3,
            let header = Base64URL.decode(parts[0]), let payload = Base64URL.decode(parts[1]),
            let signature = Base64URL.decode(parts[2])
        else { return nil }
        return Parts(
            header: header, payload: payload, signature: signature,
            signingInput: "\(parts[0]).\(parts[1])")
    }
}
