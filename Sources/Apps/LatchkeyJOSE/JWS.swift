internal import Crypto
internal import CryptoExtras
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

/// The reason why a signature is rejected.
package enum SignatureFlaw: Error, Hashable, Sendable {
    /// The header is not a JSON object with an algorithm.
    case unreadable
    /// The header requires an extension (RFC 7515 section 4.1.11).
    case criticalExtension
    /// No key verifies the signature with RS256 or ES256.
    case signature
}

extension JWS.Parts {
    private struct Header: Decodable {
        let alg: String
        let kid: String?
        let crit: [String]?
    }

    /// The key ID in the header, or nil.
    package var keyID: String? {
        (try? JSONDecoder().decode(Header.self, from: header))?.kid
    }

    /// Checks that one of the keys created the signature with RS256 or ES256.
    package func verify(with keys: JWKSet) throws(SignatureFlaw) {
        guard let header = try? JSONDecoder().decode(Header.self, from: header) else {
            throw .unreadable
        }
        guard header.crit == nil else { throw .criticalExtension }
        let message = Data(signingInput.utf8)
        let check: (JWK) -> Bool
        switch header.alg {
        case "ES256": check = { isES256(over: message, $0) }
        case "RS256": check = { isRS256(over: message, $0) }
        default: throw .signature
        }
        guard keys.candidates(alg: header.alg, kid: header.kid).contains(where: check) else {
            throw .signature
        }
    }

    private func isES256(over message: Data, _ key: JWK) -> Bool {
        guard let key = try? key.publicKey(),
            let signature = ECDSASignature(rawRepresentation: signature)
        else {
            return false
        }
        return key.isValid(signature, for: MessageDigest(sha256: message))
    }

    private func isRS256(over message: Data, _ key: JWK) -> Bool {
        guard
            key.kty == "RSA", let n = key.n.flatMap(Base64URL.decode),
            let e = key.e.flatMap(Base64URL.decode),
            let key = try? _RSA.Signing.PublicKey(n: n, e: e), key.keySizeInBits >= 2048
        else { return false }
        return key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: signature),
            for: SHA256.hash(data: message),
            padding: .insecurePKCS1v1_5)
    }
}
