import Crypto
import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeyTesting
import Testing

/// Whose ID tokens are believed.
struct ValidationTests {
    private let provider = Provider()

    private var client: OAuth2Client { OAuth2Client(Provider.context, transport: provider) }

    private func token(_ idToken: String?, more: [String: JSONValue] = [:]) throws -> Token {
        var response: [String: JSONValue] = ["access_token": "access", "token_type": "Bearer"]
        response["id_token"] = idToken.map(JSONValue.string)
        return try Token(response.merging(more) { $1 }, context: Provider.context)
    }

    private static func hash(_ text: String) -> String {
        Base64URL.encode(Data(SHA256.hash(data: Data(text.utf8)).prefix(16)))
    }

    @Test(arguments: TokenSigner.Algorithm.allCases)
    func `a good token is believed`(algorithm: TokenSigner.Algorithm) async throws {
        var claims = TokenSigner.claims()
        claims["nonce"] = "n"
        claims["auth_time"] = Int(Date().timeIntervalSince1970) - 100
        claims["at_hash"] = Self.hash("access")
        claims["ds_hash"] = Self.hash("secret")
        claims["azp"] = "app"
        claims["aud"] = ["other", "app"]
        let token = try token(provider.signer.sign(claims, algorithm), more: ["device_secret": "secret"])
        try await client.validate(token, nonce: "n", maxAge: 120)
    }

    /// What is changed in a good token, and what is found.
    private static let now = Int(Date().timeIntervalSince1970)

    @Test(
        arguments: [
            ("iss", "https://evil.test", .issuer), ("aud", "other", .audience), ("azp", "other", .audience),
            ("exp", now - 120, .expiration), ("iat", now - 400, .issuedTime), ("iat", now + 400, .issuedTime),
            ("nonce", "m", .nonce), ("sub", "", .structure), ("exp", "soon", .structure),
            ("at_hash", "AAAA", .accessTokenHash), ("at_hash", 7, .accessTokenHash),
            ("ds_hash", "AAAA", .deviceSecretHash), ("auth_time", now - 1000, .authenticationTime),
            ("aud", 7, .audience),
        ] as [(String, any Sendable, IDTokenFlaw)])
    func `each flaw is found`(claim: String, value: any Sendable, flaw: IDTokenFlaw) async throws {
        var claims = TokenSigner.claims()
        claims["auth_time"] = Self.now
        claims[claim] = value
        let token = try token(provider.signer.sign(claims), more: ["device_secret": "secret"])
        let error = await #expect(throws: CredentialError.self) { try await client.validate(token, maxAge: 300) }
        #expect(error?.flaw == flaw)
    }

    @Test func `what is missing is a flaw too`() async throws {
        let plain = provider.signer.sign(TokenSigner.claims())
        #expect(try await flaw(of: token(plain), nonce: "n") == .nonce)
        #expect(try await flaw(of: token(plain), maxAge: 300) == .authenticationTime)
        #expect(try await flaw(of: token(nil)) == .structure)
        var claims = TokenSigner.claims()
        claims["exp"] = nil
        #expect(try await flaw(of: token(provider.signer.sign(claims))) == .structure)
    }

    @Test func `only the server's own signatures count`() async throws {
        let claims = TokenSigner.claims()
        let good = provider.signer.sign(claims)
        #expect(try await flaw(of: token(TokenSigner().sign(claims))) == .signature)
        #expect(try await flaw(of: token(provider.signer.sign(claims, header: ["alg": "none"]))) == .algorithm)
        #expect(try await flaw(of: token(provider.signer.sign(claims, header: ["alg": "HS256"]))) == .algorithm)
        #expect(try await flaw(of: token(provider.signer.sign(claims, header: ["alg": "RS256"]))) == .signature)
        #expect(try await flaw(of: token(provider.signer.sign(claims, header: ["crit": ["x"]]))) == .structure)
        #expect(try await flaw(of: token(String(good.dropLast(8)) + "AAAAAAAA")) == .signature)
        #expect(try await flaw(of: token(good)) == nil)
    }

    @Test func `keys are read again for one that is not known, and not for every one`() async throws {
        let client = client
        let claims = TokenSigner.claims()
        try await client.validate(token(provider.signer.sign(claims)))
        for _ in 0..<3 {
            let token = try token(provider.signer.sign(claims, header: ["kid": "unknown"]))
            await #expect(throws: invalidToken) { try await client.validate(token) }
        }
        #expect(await provider.count("/keys") == 1)
    }

    @Test func `a server under another name is none`() async throws {
        let client = OAuth2Client(.init(issuer: "https://id.test/tenant", clientID: "app"), transport: provider)
        await #expect(throws: CredentialError.self) { try await client.userInfo(accessToken: "x") }
        let insecure = OAuth2Client(.init(issuer: "http://id.test", clientID: "app"), transport: provider)
        await #expect(throws: CredentialError.self) { try await insecure.userInfo(accessToken: "x") }
        #expect(await provider.count("/userinfo") == 0)
    }

    private func flaw(of token: Token, nonce: String? = nil, maxAge: TimeInterval? = nil) async throws -> IDTokenFlaw? {
        do {
            try await client.validate(token, nonce: nonce, maxAge: maxAge)
            return nil
        } catch let error as CredentialError {
            return error.flaw
        }
    }
}
