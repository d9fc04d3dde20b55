import Crypto
import CryptoExtras
import Foundation
import Latchkey

/// Signs ID tokens as a provider does.
struct TokenSigner: Sendable {
    enum Algorithm: String, CaseIterable, Sendable {
        case es256 = "ES256"
        case rs256 = "RS256"
    }

    private static let rsaKey = try? _RSA.Signing.PrivateKey(keySize: .bits2048)
    private let ecKey = P256.Signing.PrivateKey()

    /// The claims of a good ID token.
    static func claims(now: Date = Date()) -> [String: Any] {
        let now = Int(now.timeIntervalSince1970)
        return ["iss": Provider.issuer, "sub": "jane", "aud": "app", "iat": now, "exp": now + 600]
    }

    var keySet: String {
        let point = ecKey.publicKey.x963Representation
        var keys: [[String: Any]] = [
            ["kty": "OKP", "crv": "Ed25519", "x": "AA"],
            [
                "kty": "EC", "crv": "P-256", "kid": "ES256", "use": "sig",
                "x": Base64URL.encode(point.dropFirst().prefix(32)), "y": Base64URL.encode(point.suffix(32)),
            ],
        ]
        if let primitives = try? Self.rsaKey?.publicKey.getKeyPrimitives() {
            keys.append([
                "kty": "RSA", "kid": "RS256", "use": "sig", "n": Base64URL.encode(primitives.modulus),
                "e": Base64URL.encode(primitives.publicExponent),
            ])
        }
        return json(["keys": keys])
    }

    func sign(_ claims: [String: Any], _ algorithm: Algorithm = .es256, header: [String: Any] = [:]) -> String {
        let header = ["alg": algorithm.rawValue, "kid": algorithm.rawValue].merging(header) { $1 }
        let input = "\(Base64URL.encode(Data(json(header).utf8))).\(Base64URL.encode(Data(json(claims).utf8)))"
        let signature: Data? =
            switch algorithm {
            case .es256: try? ecKey.signature(for: Data(input.utf8)).rawRepresentation
            case .rs256:
                try? Self.rsaKey?.signature(
                    for: SHA256.hash(data: Data(input.utf8)), padding: .insecurePKCS1v1_5
                ).rawRepresentation
            }
        return "\(input).\(Base64URL.encode(signature ?? Data()))"
    }
}
