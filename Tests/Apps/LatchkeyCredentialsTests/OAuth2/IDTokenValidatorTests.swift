import Crypto
import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeyJOSE
import LatchkeyOAuth
import Testing

struct IDTokenValidatorTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)
    private let validator = IDTokenValidator(issuer: "https://id.test", clientID: "app")

    private func claims(_ changes: [String: JSONValue?] = [:]) -> [String: JSONValue] {
        var claims: [String: JSONValue] = [
            "iss": .string("https://id.test"), "sub": .string("jane"), "aud": .string("app"),
            "iat": .number(1_800_000_000), "exp": .number(1_800_000_600),
        ]
        for (name, value) in changes { claims[name] = value }
        return claims
    }

    private static let noKey = IDTokenFlaw.noKey(MissingKey(kid: "key-1", skipped: []))

    private func validate(
        _ token: JWT, _ keys: [JWK], _ expected: IDTokenValidator.Expectations = .init()
    ) throws(IDTokenFlaw) {
        _ = try validator.validate(token.rawValue, keys: JWKS(keys: keys), expected, now: now)
    }

    @Test(arguments: Signer.Algorithm.allCases)
    func `a good token is accepted`(algorithm: Signer.Algorithm) throws {
        let signer = try Signer(algorithm)
        // The example of OpenID Connect Core A.3: this access token has that hash.
        let expected = IDTokenValidator.Expectations(
            nonce: "n", accessToken: "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y",
            maximumLoginAge: 60)
        let token = try signer.sign(
            claims([
                "nonce": .string("n"), "at_hash": .string("77QmUPtjPfzWtF2AnpK9RQ"),
                "auth_time": .number(1_799_999_990),
                "aud": .array([.string("https://id.test"), .string("app")]), "azp": .string("app"),
            ]))
        try validate(token, [try Signer(keyID: "other").jwk, signer.jwk], expected)
    }

    @Test(
        arguments: [
            ["iss": .string("https://id.test/")], ["iss": .string("https://evil.test")],
            ["iss": nil],
            ["aud": .string("other")], ["aud": nil], ["aud": .array([])],
            ["aud": .array([.string("app"), .string("other")])],
            ["aud": .array([.string("app"), .string("other")]), "azp": .string("app")],
            ["aud": .array([.string("app"), .string("https://id.test")])], ["azp": .number(1)],
            ["azp": .string("other")],
            ["sub": nil], ["sub": .string("")], ["sub": .string(" a")], ["sub": .number(1)],
            ["exp": .number(1_799_999_940)], ["exp": nil], ["exp": .string("1800000600")],
            ["iat": .number(1_800_000_301)], ["iat": .number(1_799_999_699)], ["iat": nil],
            ["nbf": .number(1_800_000_061)], ["nonce": .string("m")], ["nonce": nil],
            ["at_hash": .string("x")], ["at_hash": .number(1)], ["c_hash": .string("x")],
            ["ds_hash": .string("x")],
            ["auth_time": .number(1_799_999_000)], ["auth_time": nil],
            ["auth_time": .string("1799999000")], ["auth_time": .string("soon")],
            ["azp": .null], ["nonce": .null], ["at_hash": .null], ["c_hash": .null],
            ["ds_hash": .null],
        ] as [[String: JSONValue?]])
    func `each wrong claim is refused`(change: [String: JSONValue?]) throws {
        let signer = try Signer()
        let good: [String: JSONValue?] = [
            "nonce": .string("n"), "auth_time": .number(1_799_999_990),
        ]
        let expected = IDTokenValidator.Expectations(
            nonce: "n", accessToken: "a", code: "c", deviceSecret: "d", maximumLoginAge: 60,
            maximumIssueDifference: 300
        )
        try validate(signer.sign(claims(good)), [signer.jwk], expected)
        let text = good.merging(["auth_time": .string("1799999990")]) { $1 }
        try validate(signer.sign(claims(text)), [signer.jwk], expected)
        let bad = try signer.sign(claims(good.merging(change) { $1 }))
        #expect(throws: IDTokenFlaw.self) { try validate(bad, [signer.jwk], expected) }
    }

    @Test(arguments: [1_799_999_700.0, 1_800_000_061, 1_800_000_300])
    func `credentials accept clocks that differ by five minutes`(issued: Double) throws {
        let signer = try Signer()
        let token = try signer.sign(claims(["iat": .number(issued)]))
        try validate(
            token, [signer.jwk], .init(maximumIssueDifference: 300))
    }

    @Test func `a token of any age is accepted without a maximum`() throws {
        let signer = try Signer()
        try validate(signer.sign(claims(["iat": .number(1_799_990_000)])), [signer.jwk])
    }

    @Test func `only the server's signature is accepted`() throws {
        let (signer, stranger) = (try Signer(), try Signer())
        let token = try signer.sign(claims())
        try validate(token, [signer.jwk])
        #expect(throws: IDTokenFlaw.signature) { try validate(token, [stranger.jwk]) }
        #expect(throws: Self.noKey) { try validate(token, []) }
        let parts = token.rawValue.split(separator: ".").map(String.init)
        let other = try signer.sign(claims(["sub": .string("eve")])).rawValue.split(separator: ".")
            .map(String.init)
        let swapped = try JWT("\(parts[0]).\(other[1]).\(parts[2])")
        #expect(throws: IDTokenFlaw.signature) { try validate(swapped, [signer.jwk]) }
    }

    @Test func `a signature in DER is named`() throws {
        let signer = try Signer()
        let parts = try signer.sign(claims()).rawValue.split(separator: ".").map(String.init)
        let raw = try #require(Base64URL.decode(parts[2]))
        let der = try P256.Signing.ECDSASignature(rawRepresentation: raw).derRepresentation
        let token = try JWT("\(parts[0]).\(parts[1]).\(Base64URL.encode(der))")
        let flaw = #expect(throws: IDTokenFlaw.self) { try validate(token, [signer.jwk]) }
        #expect(flaw?.reason.contains("the signature has \(der.count) bytes") == true)
        #expect(flaw?.reason.hasSuffix("ES256 has 64: r and s, not DER") == true)
    }

    @Test(arguments: ["none", "None", "HS256", "RS256", "ES384", "PS256", "EdDSA", "es256", ""])
    func `an algorithm that does not match the key is refused`(algorithm: String) throws {
        let signer = try Signer()
        let token = try signer.sign(
            claims(), header: ["alg": .string(algorithm), "kid": .string("key-1")])
        let flaw =
            SignatureAlgorithm(rawValue: algorithm) == nil
            ? IDTokenFlaw.algorithms([algorithm]) : Self.noKey
        #expect(throws: flaw) { try validate(token, [signer.jwk]) }
        var open = try signer.jwk
        open.alg = nil
        #expect(throws: flaw) { try validate(token, [open]) }
    }

    @Test func `a token without a signature is refused`() throws {
        let signer = try Signer()
        let input = try JWS.signingInput(header: ["alg": "none"], payload: claims())
        let token = try JWT(input + ".")
        #expect(throws: IDTokenFlaw.algorithms(["none"])) { try validate(token, [signer.jwk]) }
    }

    @Test(
        arguments: [
            ["alg": .string("ES256"), "kid": .string("other")],
            ["alg": .string("ES256"), "kid": .string("key-1"), "crit": .array([.string("x")])],
            ["alg": .string("ES256"), "kid": .string("key-1"), "crit": .string("x")],
            ["kid": .string("key-1")],
        ] as [[String: JSONValue]])
    func `an unsupported header is refused`(header: [String: JSONValue]) throws {
        let signer = try Signer()
        let compact = try signer.compact(claims(), header: header)
        let flaw: IDTokenFlaw =
            if header["crit"] != nil {
                .criticalExtension
            } else if header["alg"] == nil {
                .unreadable("the header names no algorithm")
            } else {
                .noKey(MissingKey(kid: "other", skipped: []))
            }
        #expect(throws: flaw) {
            try validator.validate(compact, keys: JWKS(keys: [signer.jwk]), now: now)
        }
    }

    @Test func `a key for encryption is not used for signatures`() throws {
        let signer = try Signer()
        var key = try signer.jwk
        key.use = "enc"
        let token = try signer.sign(claims())
        let reason = "its ‘use’ is ‘enc’ and not ‘sig’"
        let skipped = SkippedKey(position: 1, kid: key.kid, reason: reason)
        #expect(throws: IDTokenFlaw.noKey(MissingKey(kid: "key-1", skipped: [skipped]))) {
            try validate(token, [key])
        }
    }
}
