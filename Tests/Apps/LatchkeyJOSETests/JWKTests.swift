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

/// Keys of a server, as servers publish them.
struct JWKSetTests {
    private func read(_ keys: String) throws -> JWKS {
        try JSONDecoder().decode(JWKS.self, from: Data(#"{"keys":[\#(keys)]}"#.utf8))
    }

    private static let good =
        #"{"kty":"EC","crv":"P-256","kid":"good","x":"\#(JWKTests.x)","y":"\#(JWKTests.y)"}"#

    /// Odd keys, with the words that name the cause.
    @Test(arguments: [
        (
            #"{"kty":"EC","crv":"P-256","kid":7,"x":"\#(JWKTests.x)","y":"\#(JWKTests.y)"}"#,
            "‘kid’ is not a string"
        ),
        (
            #"{"kty":"EC","crv":"P-256","kid":"k","x":"\#(JWKTests.x)=","y":"\#(JWKTests.y)"}"#,
            "‘x’ is not base64url"
        ),
        (#"{"kty":"EC","crv":"P-256","x":"\#(JWKTests.x)"}"#, "‘y’ is missing"),
        (
            #"{"kty":"EC","crv":"P-256","x":"\#(JWKTests.x)","y":"\#(JWKTests.x)"}"#,
            "not a public key"
        ),
        (
            #"{"kty":"EC","crv":"P-384","x":"\#(JWKTests.x)","y":"\#(JWKTests.y)"}"#,
            "does not have 48 bytes"
        ),
        (
            #"{"kty":"EC","crv":"secp256k1","x":"\#(JWKTests.x)","y":"\#(JWKTests.y)"}"#,
            "‘secp256k1’ is not supported"
        ),
        (#"{"kty":"EC","x":"\#(JWKTests.x)"}"#, "the curve ‘’"),
        (#"{"kty":"oct","k":"AA"}"#, "‘oct’ is not supported"),
        (#"{"kty":"OKP","crv":"X25519","x":"\#(JWKTests.x)"}"#, "‘X25519’"),
        (#"{"kid":"a"}"#, "‘kty’ is missing"),
        (#"{"kty":null}"#, "‘kty’"), ("null", "not a JSON object"),
        (#""text""#, "not a JSON object"),
        (#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#, "key"),
        (#"{"kty":"RSA","e":"AQAB"}"#, "‘n’ is missing"),
        (
            #"{"kty":"EC","crv":"P-256","use":"enc","x":"\#(JWKTests.x)","y":"\#(JWKTests.y)"}"#,
            "its ‘use’ is ‘enc’"
        ),
        (
            #"{"kty":"EC","crv":"P-256","alg":"es256","x":"\#(JWKTests.x)","y":"\#(JWKTests.y)"}"#,
            "its algorithm ‘es256’ is not supported"
        ),
    ])
    func `a key that cannot be used is skipped with its cause, and the others are used`(
        key: String, words: String
    ) throws {
        for (keys, position) in [("\(key),\(Self.good)", 1), ("\(Self.good),\(key)", 2)] {
            let set = try read(keys)
            #expect(set.keys.map(\.kid) == ["good"])
            let skipped = try #require(set.skipped.first)
            #expect(set.skipped.count == 1 && skipped.text.contains(words), "\(skipped.text)")
            #expect(skipped.text.hasPrefix("key \(position): ") || skipped.text.hasPrefix("key ‘"))
        }
        #expect(try read(key).keys.isEmpty)
    }

    @Test func `a key fits its own algorithm, use and name`() throws {
        let key = P256.Signing.PrivateKey()
        func candidates(
            _ change: (inout JWK) -> Void, kid: String? = "k", alg: String = "ES256"
        ) throws -> JWSFlaw.Code? {
            var jwk = JWK(try PublicKey(x963Representation: key.publicKey.x963Representation))
            jwk.kid = "k"
            change(&jwk)
            var header: [String: JSONValue] = ["alg": .string(alg)]
            header["kid"] = kid.map { .string($0) }
            let input = try JWS.signingInput(header: header, payload: ["a": 1])
            let signature = try key.signature(for: Data(input.utf8)).rawRepresentation
            do throws(JWSFlaw) {
                try ReceivedJWS("\(input).\(Base64URL.encode(signature))").verify(
                    with: JWKS(keys: [jwk]))
                return nil
            } catch {
                return error.code
            }
        }
        func missing(_ kid: String?) -> JWSFlaw.Code { .noKey(MissingKey(kid: kid, skipped: [])) }
        #expect(try candidates { _ in } == nil)
        #expect(try candidates({ _ in }, kid: nil) == nil)
        #expect(try candidates { $0.kid = nil } == nil)
        #expect(try candidates { $0.alg = nil } == nil)
        #expect(try candidates { $0.use = "sig" } == nil)
        #expect(try candidates { ($0.use, $0.alg) = ("", "") } == nil)
        let reason = "its ‘use’ is ‘enc’ and not ‘sig’"
        let encrypts = SkippedKey(position: 1, kid: "k", reason: reason)
        #expect(
            try candidates { $0.use = "enc" } == .noKey(MissingKey(kid: "k", skipped: [encrypts])))
        #expect(try candidates { $0.alg = "RS256" } == missing("k"))
        #expect(try candidates { $0.kid = "other" } == missing("k"))
        #expect(try candidates({ $0.alg = nil }, alg: "RS256") == missing("k"))
        #expect(try candidates({ _ in }, alg: "none") == .algorithm("none"))
        #expect(try candidates { ($0.x, $0.y) = (JWKTests.x, JWKTests.y) } == .signature)
    }
}
