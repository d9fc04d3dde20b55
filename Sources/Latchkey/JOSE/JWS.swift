package import FoundationEssentials

/// A JSON Web Signature in compact form (RFC 7515 section 3.1), before and after signing.
package enum JWS {
    /// What is signed: `base64url(header) . base64url(payload)`. Members are in sorted order, so that the same values
    /// always give the same text.
    package static func signingInput(header: some Encodable, payload: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try Base64URL.encode(encoder.encode(header)) + "." + Base64URL.encode(encoder.encode(payload))
    }

    /// The finished JWS of an ES256 signature.
    package static func compact(_ signingInput: String, signature: ECDSASignature) -> String {
        signingInput + "." + Base64URL.encode(signature.rawRepresentation)
    }

    /// The three parts of a compact JWS, decoded but not verified.
    package struct Parts: Sendable {
        /// The protected header, decoded: JSON that nobody has checked yet.
        package let header: Data
        /// The payload, decoded: bytes that nobody has checked yet.
        package let payload: Data
        /// The signature, decoded. Nothing is said of it before it is verified.
        package let signature: Data
        /// The bytes over which the signature goes.
        package let signingInput: String
    }

    /// Takes a compact JWS apart. Nothing is verified.
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
            header: header, payload: payload, signature: signature, signingInput: "\(parts[0]).\(parts[1])")
    }
}
