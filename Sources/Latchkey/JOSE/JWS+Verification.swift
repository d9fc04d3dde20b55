internal import Crypto
internal import CryptoExtras
internal import FoundationEssentials

/// Why a signature is not accepted.
package enum SignatureFlaw: Error, Hashable, Sendable {
    /// The header is no JSON object with an algorithm.
    case unreadable
    /// The header wants an extension to be understood (RFC 7515 section 4.1.11).
    case criticalExtension
    /// The algorithm is neither RS256 nor ES256.
    case algorithm
    /// None of the keys made it.
    case signature
}

extension JWS.Parts {
    private struct Header: Decodable {
        let alg: String
        let kid: String?
        let crit: [String]?
    }

    /// The key id that the header names; nil without one.
    package var keyID: String? {
        (try? JSONDecoder().decode(Header.self, from: header))?.kid
    }

    /// Checks that one of the keys made the signature: RS256 or ES256, whatever else the header says.
    package func verify(with keys: JWKSet) throws(SignatureFlaw) {
        guard let header = try? JSONDecoder().decode(Header.self, from: header) else { throw .unreadable }
        guard header.crit == nil else { throw .criticalExtension }
        let message = Data(signingInput.utf8)
        let check: (JWK) -> Bool
        switch header.alg {
        case "ES256": check = { isES256(over: message, $0) }
        case "RS256": check = { isRS256(over: message, $0) }
        default: throw .algorithm
        }
        guard keys.candidates(alg: header.alg, kid: header.kid).contains(where: check) else { throw .signature }
    }

    private func isES256(over message: Data, _ key: JWK) -> Bool {
        guard let key = try? key.publicKey(), let signature = ECDSASignature(rawRepresentation: signature) else {
            return false
        }
        return key.isValid(signature, for: MessageDigest(sha256: message))
    }

    private func isRS256(over message: Data, _ key: JWK) -> Bool {
        guard
            key.kty == "RSA", let n = key.n.flatMap(Base64URL.decode), let e = key.e.flatMap(Base64URL.decode),
            let key = try? _RSA.Signing.PublicKey(n: n, e: e), key.keySizeInBits >= 2048
        else { return false }
        return key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: signature), for: SHA256.hash(data: message),
            padding: .insecurePKCS1v1_5)
    }
}
