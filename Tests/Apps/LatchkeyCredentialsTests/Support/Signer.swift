import Crypto
import CryptoExtras
import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeyJOSE

/// Signs ID tokens as a server does.
struct Signer: Sendable {
    enum Algorithm: String, Sendable, CaseIterable {
        case es256 = "ES256"
        case rs256 = "RS256"
    }

    let algorithm: Algorithm
    let keyID: String
    private let ecKey = P256.Signing.PrivateKey()
    private let rsaKey: _RSA.Signing.PrivateKey?

    init(_ algorithm: Algorithm = .es256, keyID: String = "key-1") throws {
        self.algorithm = algorithm
        self.keyID = keyID
        rsaKey = algorithm == .rs256 ? try _RSA.Signing.PrivateKey(keySize: .bits2048) : nil
    }

    var jwk: JWK {
        get throws {
            guard let rsaKey else {
                var jwk = JWK(try PublicKey(x963Representation: ecKey.publicKey.x963Representation))
                jwk.kid = keyID
                return jwk
            }
            let key = try rsaKey.publicKey.getKeyPrimitives()
            return JWK(rsaModulus: key.modulus, exponent: key.publicExponent, kid: keyID)
        }
    }

    func sign(_ claims: [String: JSONValue], header: [String: JSONValue]? = nil) throws -> JWT {
        try JWT(compact(claims, header: header))
    }

    /// A signed text, which need not be a token that Latchkey reads.
    func compact(_ claims: [String: JSONValue], header: [String: JSONValue]? = nil) throws -> String
    {
        let header = header ?? ["alg": .string(algorithm.rawValue), "kid": .string(keyID)]
        let input = try JWS.signingInput(header: header, payload: claims)
        let digest = SHA256.hash(data: Data(input.utf8))
        let signature =
            if let rsaKey {
                try rsaKey.signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation
            } else {
                try ecKey.signature(for: digest).rawRepresentation
            }
        return input + "." + Base64URL.encode(signature)
    }
}
