import Foundation
import Latchkey
import LatchkeyJOSE
import Testing

@testable import LatchkeyOAuth

struct IDTokenVerifierTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)
    private let validator = IDTokenValidator(issuer: "https://a.test", clientID: "app")

    private var good: IDClaims {
        IDClaims(
            iss: "https://a.test", sub: "user", aud: ["app"], exp: 1_800_000_300,
            iat: 1_800_000_000, nonce: "n",
            at_hash: "77QmUPtjPfzWtF2AnpK9RQ")
    }

    /// The example of OpenID Connect Core A.3: this access token has that hash.
    private let accessToken = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y"

    private func verify(
        _ claims: IDClaims, by signer: TokenSigner, serverDate: Date? = nil
    ) async throws -> IDToken {
        let set = try JSONDecoder().decode(JWKS.self, from: Data(signer.keySet.utf8))
        return try await validator.validate(
            signer.sign(claims), keys: set, .init(nonce: "n", accessToken: accessToken),
            now: now, serverDate: serverDate)
    }

    @Test(arguments: [TokenSigner.Algorithm.es256, .rs256])
    func `a token of another implementation is accepted`(algorithm: TokenSigner.Algorithm)
        async throws
    {
        let signer = try TokenSigner(algorithm)
        #expect(try await verify(good, by: signer).sub == "user")
        var other = good
        other.at_hash = nil
        other.aud = ["https://a.test", "app"]
        other.azp = "app"
        #expect(try await verify(other, by: signer).aud == ["https://a.test", "app"])
    }

    private static let noSubject = IDTokenFlaw.claim(
        "sub", "does not have 1 to 255 ASCII characters without a blank at its ends")

    @Test func `another issuer is named with the expected one`() {
        #expect(
            IDTokenFlaw.issuer("https://a.test/", expected: "https://a.test").reason
                == "the server's ID token comes from ‘https://a.test/’, and the server's metadata names ‘https://a.test’"
        )
    }

    @Test func `every wrong claim is refused`() async throws {
        let signer = try TokenSigner()
        let changes: [(IDTokenFlaw, (inout IDClaims) -> Void)] = [
            (
                .issuer("https://a.test/", expected: "https://a.test"),
                { $0.iss = "https://a.test/" }
            ),
            (.audience, { $0.aud = ["apps"] }),
            (.audience, { $0.aud = [] }), (.audience, { $0.azp = "other" }),
            (.audience, { $0.aud = ["app", "other"] }),
            (.audience, { ($0.aud, $0.azp) = (["app", "other"], "app") }),
            (.audience, { ($0.aud, $0.azp) = (["app", "other"], "other") }),
            (.audience, { $0.aud = ["app", "https://a.test"] }),
            (.audience, { ($0.aud, $0.azp) = (["app", "https://a.test"], "https://a.test") }),
            (.expiredOrWrongClock, { $0.exp = 1_799_999_940 }),
            (.notYetValid, { $0.nbf = 1_800_000_060 }),
            (.notYetValid, { $0.iat = 1_800_000_060 }),
            (.nonce, { $0.nonce = "m" }), (.nonce, { $0.nonce = nil }),
            (.hash("at_hash"), { $0.at_hash = "88QmUPtjPfzWtF2AnpK9RQ" }),
            (Self.noSubject, { $0.sub = "" }),
            (Self.noSubject, { $0.sub = "a\nb" }),
            (Self.noSubject, { $0.sub = String(repeating: "x", count: 256) }),
        ]
        for (flaw, change) in changes {
            var claims = good
            change(&claims)
            await #expect(throws: flaw) { try await verify(claims, by: signer) }
        }
    }

    @Test func `a wrong clock is distinguished from an expired token`() async throws {
        let signer = try TokenSigner()
        var claims = good
        claims.exp = 1_799_996_400
        let truth = Date(timeIntervalSince1970: 1_799_996_300)
        await #expect(throws: IDTokenFlaw.clock(secondsAhead: 3700)) {
            try await verify(claims, by: signer, serverDate: truth)
        }
        await #expect(throws: IDTokenFlaw.expired) {
            try await verify(claims, by: signer, serverDate: now)
        }
    }
}
