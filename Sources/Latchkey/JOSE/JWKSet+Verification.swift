internal import Crypto
internal import CryptoExtras
internal import FoundationEssentials

extension JWKSet {
    /// Whether one of the keys signed the compact JWS: RS256 or ES256, whatever else the header says.
    ///
    /// The header names the key (`kid`) and the algorithm, but a key is used with its own algorithm only; `none`, the
    /// symmetric algorithms, RSA keys below 2048 bits, and headers with an extension that must be understood (`crit`)
    /// are refused.
    package func haveSigned(_ parts: JWS.Parts) -> Bool {
        guard
            let header = try? JSONDecoder().decode(Header.self, from: parts.header), !header.hasCriticalExtension
        else { return false }
        let message = Data(parts.signingInput.utf8)
        return candidates(alg: header.alg, kid: header.kid).contains { key in
            switch header.alg {
            case "ES256": Self.isES256(parts.signature, over: message, key)
            case "RS256": Self.isRS256(parts.signature, over: message, key)
            default: false
            }
        }
    }

    /// Whether there is a key that the header of `parts` can mean: where there is none, the set may be too old.
    package func haveKey(for parts: JWS.Parts) -> Bool {
        guard let header = try? JSONDecoder().decode(Header.self, from: parts.header) else { return false }
        return !candidates(alg: header.alg, kid: header.kid).isEmpty
    }

    private struct Header: Decodable {
        let alg: String
        let kid: String?
        let hasCriticalExtension: Bool

        private enum CodingKeys: String, CodingKey {
            case alg, kid, crit
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            alg = try container.decode(String.self, forKey: .alg)
            kid = try container.decodeIfPresent(String.self, forKey: .kid)
            hasCriticalExtension = container.contains(.crit)
        }
    }

    private static func isES256(_ signature: Data, over message: Data, _ key: JWK) -> Bool {
        guard let key = try? key.publicKey(), let signature = ECDSASignature(rawRepresentation: signature) else {
            return false
        }
        return key.isValid(signature, for: MessageDigest(sha256: message))
    }

    private static func isRS256(_ signature: Data, over message: Data, _ key: JWK) -> Bool {
        guard
            key.kty == "RSA", let n = key.n.flatMap(Base64URL.decode), let e = key.e.flatMap(Base64URL.decode),
            let key = try? _RSA.Signing.PublicKey(n: n, e: e), key.keySizeInBits >= 2048
        else { return false }
        return key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: signature), for: SHA256.hash(data: message),
            padding: .insecurePKCS1v1_5)
    }
}
