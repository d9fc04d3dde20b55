import Crypto
import Foundation
import Latchkey
import LatchkeyJOSE
import Testing

struct JWKTests {
    /// The public half of the key in RFC 7515 appendix A.3.
    static let x = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"
    static let y = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"

    @Test func `a P-256 key keeps its coordinates`() throws {
        let json = #"{"kty":"EC","crv":"P-256","x":"\#(Self.x)","y":"\#(Self.y)"}"#
        let jwk = try JSONDecoder().decode(JWK.self, from: Data(json.utf8))
        let key = try jwk.publicKey()
        #expect(JWK(key).x == Self.x)
        #expect(JWK(key).y == Self.y)
        #expect(JWK(key).alg == "ES256")
    }

    /// RFC 7515 appendix A.3: a signature from another implementation verifies.
    @Test func `the signature of RFC 7515 appendix A_3 verifies`() throws {
        let compact =
            "eyJhbGciOiJFUzI1NiJ9"
            + ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
            + ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
        let parts = try ReceivedJWS(compact)
        let signature = try #require(ECDSASignature(rawRepresentation: parts.signature))
        var jwk = try JWK(
            PublicKey(x963Representation: P256.Signing.PrivateKey().publicKey.x963Representation))
        jwk.x = Self.x
        jwk.y = Self.y
        let digest = MessageDigest(sha256: parts.signingInput.utf8)
        #expect(try jwk.publicKey().isValid(signature, for: digest))
        let other = MessageDigest(sha256: (parts.signingInput + " ").utf8)
        #expect(try !jwk.publicKey().isValid(signature, for: other))
    }

    @Test(arguments: [
        #"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#,
        #"{"kty":"EC","crv":"P-384","x":"\#(x)","y":"\#(y)"}"#,
        #"{"kty":"EC","crv":"P-256","x":"\#(x)"}"#,
        #"{"kty":"EC","crv":"P-256","x":"\#(x)","y":"\#(x)"}"#,
        #"{"kty":"EC","crv":"P-256","x":"AA","y":"\#(y)"}"#,
    ])
    func `what is no point on P-256 is refused`(json: String) throws {
        let jwk = try JSONDecoder().decode(JWK.self, from: Data(json.utf8))
        #expect(throws: KeystoreError.self) { try jwk.publicKey() }
    }
}
