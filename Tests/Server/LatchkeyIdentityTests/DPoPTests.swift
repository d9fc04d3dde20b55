import Crypto
import CryptoExtras
import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// Tokens that are bound to a key of the client (RFC 9449), under attack.
@Suite("DPoP") struct DPoPTests {
    private func withServer(
        _ binding: TokenBinding = .refreshTokens, nonce: Bool = false,
        _ body: @Sendable (TestServer) async throws -> Void
    ) async throws {
        try await TestServer.run(
            {
                $0.clients[0].dpop = binding
                $0.dpopNonceRequired = nonce
            }, body: body)
    }

    @Test func `it is announced if a client requires it`() async throws {
        let name = "dpop_signing_alg_values_supported"
        try await TestServer.run { server in
            let document = try await server.send(.get, "/.well-known/openid-configuration")
                .success()
            #expect(document[name] == nil)
            let tokens = try await server.login()
            try await server.refresh(#require(tokens.refresh)).success()
        }
        try await withServer { server in
            let document = try await server.send(.get, "/.well-known/openid-configuration")
                .success()
            #expect(document[name] == ["ES256"])
        }
    }

    /// A proof that the server must refuse.
    private struct Attack: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Makes the fields for a request of the owner's token.
        let proofs: @Sendable (TestDevice, _ url: String, _ now: Int) throws -> [String]

        init(
            _ name: String,
            _ proofs: @escaping @Sendable (TestDevice, String, Int) throws -> [String]
        ) {
            (testDescription, self.proofs) = (name, proofs)
        }

        /// An attack that changes members of the header or claims.
        static func changed(
            _ name: String, header: [String: JSONValue] = [:], claims: [String: JSONValue] = [:]
        ) -> Attack {
            Attack(name) { [try $0.proof($1, now: $2, header: header, claims: claims)] }
        }
    }

    private static let attacks: [Attack] = [
        .changed("another method", claims: ["htm": "GET"]),
        .changed("a method in lower case", claims: ["htm": "post"]),
        .changed("another host", claims: ["htu": "https://other.example/oauth2/token"]),
        .changed("a name that is no URL", claims: ["htu": "/oauth2/token"]),
        Attack("another path") { [try $0.proof($1 + "s", now: $2)] },
        Attack("another scheme") {
            [try $0.proof($1.replacing("http:", with: "https:"), now: $2)]
        },
        Attack("an old time") { [try $0.proof($1, now: $2 - 301)] },
        Attack("a time in the future") { [try $0.proof($1, now: $2 + 301)] },
        .changed("a time as text", claims: ["iat": "now"]),
        .changed("no time", claims: ["iat": .null]),
        .changed("no jti", claims: ["jti": .null]),
        .changed("an empty jti", claims: ["jti": ""]),
        .changed("a long jti", claims: ["jti": .string(String(repeating: "j", count: 257))]),
        .changed("no htm", claims: ["htm": .null]),
        .changed("no htu", claims: ["htu": .null]),
        .changed("another type", header: ["typ": "JWT"]),
        .changed("no type", header: ["typ": .null]),
        .changed("alg none", header: ["alg": "none"]),
        .changed("alg HS256", header: ["alg": "HS256"]),
        .changed("another algorithm of the key", header: ["alg": "ES384"]),
        .changed("no key", header: ["jwk": .null]),
        .changed("a critical extension", header: ["crit": ["exp"]]),
        Attack("no signature") { device, url, now in
            let parts = try device.proof(url, now: now, header: ["alg": "none"]).split(
                separator: ".")
            return ["\(parts[0]).\(parts[1])."]
        },
        Attack("a changed claim under the old signature") { device, url, now in
            let (one, two) = (
                try device.proof(url, now: now).split(separator: "."),
                try device.proof(url, now: now - 1).split(separator: ".")
            )
            return ["\(one[0]).\(two[1]).\(one[2])"]
        },
        Attack("an HMAC with the public key") { device, url, now in
            let input = try device.proof(url, now: now, header: ["alg": "HS256"]).split(
                separator: "."
            ).prefix(2).joined(separator: ".")
            let secret = SymmetricKey(data: try CanonicalJSON.encode(device.jwk))
            let code = HMAC<SHA256>.authenticationCode(for: Data(input.utf8), using: secret)
            return [input + "." + Base64URL.encode(Data(code))]
        },
        Attack("an RSA key with RS256") { _, url, now in
            let key = try _RSA.Signing.PrivateKey(keySize: .bits2048)
            return [try TestDevice(key: .rs256(key)).proof(url, now: now)]
        },
        Attack("a private key in the header") { device, url, now in
            guard case .es256(let key) = device.key else { return [] }
            let jwk = try device.jwk.merging([
                "d": .string(Base64URL.encode(key.rawRepresentation))
            ]) { $1 }
            return [try device.proof(url, now: now, header: ["jwk": .object(jwk)])]
        },
        Attack("another key in the header") { device, url, now in
            [try device.proof(url, now: now, header: ["jwk": .object(TestDevice().jwk)])]
        },
        Attack("two fields") { device, url, now in
            [try device.proof(url, now: now), try device.proof(url, now: now)]
        },
        Attack("two proofs in one field") { device, url, now in
            [try "\(device.proof(url, now: now)), \(device.proof(url, now: now))"]
        },
        Attack("a text") { _, _, _ in ["proof"] },
    ]

    @Test(arguments: attacks)
    private func `a wrong proof is refused, and uses nothing up`(attack: Attack) async throws {
        try await withServer { server in
            let owner = TestDevice()
            let token = try await #require(
                server.login(provenBy: owner)["refresh_token"]?.string)
            let now = server.time.seconds
            try await server.refresh(token, proofs: attack.proofs(owner, server.tokenURL, now))
                .expectError(400, "invalid_dpop_proof")
            try await server.refresh(token, proofs: [owner.proof(server.tokenURL, now: now)])
                .success()
        }
    }

    /// RFC 9449 section 4.3 with RFC 3986 section 6.2.
    @Test(arguments: [
        ("", "?a=b"), ("", "#c"), ("http:", "HTTP:"), ("/token", "/%74oken"),
        ("/token", "/./token"),
        ("/oauth2", "/a/../oauth2"),
    ])
    func `a URL in another form is the same`(old: String, new: String) async throws {
        try await withServer { server in
            let owner = TestDevice()
            let token = try await #require(
                server.login(provenBy: owner)["refresh_token"]?.string)
            let url = server.tokenURL
            let same = old.isEmpty ? url + new : url.replacing(old, with: new)
            let proof = try owner.proof(same, now: server.time.seconds)
            try await server.refresh(token, proofs: [proof]).success()
        }
    }

    @Test func `a proof is accepted once, in requests for tokens and for resources`() async throws {
        try await withServer(.accessTokens) { server in
            let owner = TestDevice()
            let now = server.time.seconds
            let proof = try owner.proof(server.tokenURL, now: now)
            let tokens = try await server.redeem(server.code(), proofs: [proof]).success()
            let refresh = try #require(tokens["refresh_token"]?.string)
            try await server.refresh(refresh, proofs: [proof]).expectError(
                400, "invalid_dpop_proof")
            let access = try #require(tokens["access_token"]?.string)
            let use = try owner.proof(
                server.origin + "/oauth2/userinfo", method: "GET", now: now, token: access)
            try await server.userInfo("DPoP \(access)", proofs: [use]).success()
            try await server.userInfo("DPoP \(access)", proofs: [use]).expectError(
                401, "invalid_dpop_proof")
        }
    }

    @Test func `a bound access token needs a proof with its digest for each request`() async throws
    {
        try await withServer(.accessTokens) { server in
            let (owner, thief) = (TestDevice(), TestDevice())
            let tokens = try await server.login(provenBy: owner)
            #expect(tokens["token_type"] == "DPoP")
            let access = try #require(tokens["access_token"]?.string)
            let (url, now) = (server.origin + "/oauth2/userinfo", server.time.seconds)
            func proof(_ device: TestDevice, _ token: String?) throws -> [String] {
                [try device.proof(url, method: "GET", now: now, token: token)]
            }
            try await server.userInfo("DPoP \(access)", proofs: proof(owner, access)).success()
            try await server.userInfo(access).expectError(401, "invalid_grant")
            try await server.userInfo("Bearer \(access)", proofs: proof(owner, access)).expectError(
                401, "invalid_grant")
            try await server.userInfo("DPoP \(access)", proofs: proof(thief, access)).expectError(
                401, "invalid_grant")
            for (proofs, error) in [
                ([], "invalid_dpop_proof"), (try proof(owner, nil), "invalid_dpop_proof"),
                (try proof(owner, "another"), "invalid_dpop_proof"),
                (
                    [try owner.proof(server.tokenURL, method: "GET", now: now, token: access)],
                    "invalid_dpop_proof"
                ),
            ] {
                let refused = try await server.userInfo("DPoP \(access)", proofs: proofs)
                try refused.expectError(401, error)
                let challenge = refused.headers[.wwwAuthenticate] ?? ""
                #expect(challenge.hasPrefix(#"DPoP algs="ES256", error="\#(error)""#))
            }
        }
    }

    @Test func `a bearer token does not become a bound one`() async throws {
        try await withServer { server in
            let owner = TestDevice()
            let access = try await #require(server.login(provenBy: owner)["access_token"]?.string)
            try await server.userInfo(access).success()
            let proof = try owner.proof(
                server.origin + "/oauth2/userinfo", method: "GET", now: server.time.seconds,
                token: access)
            try await server.userInfo("DPoP \(access)", proofs: [proof]).expectError(
                401, "invalid_grant")
        }
    }

    @Test(arguments: [0, 16, 31, 33]) func `the key of nonces has 32 bytes`(count: Int) throws {
        let error = #expect(throws: KeystoreError.self) {
            try DPoPNonces(key: Data(repeating: 1, count: count))
        }
        #expect(error?.code == .invalidInput)
        #expect(try DPoPNonces(key: Data(repeating: 1, count: 32)).current.count == 54)
    }

    @Test func `with nonces, a proof needs a recent nonce of this server`() async throws {
        try await withServer(nonce: true) { server in
            let owner = TestDevice()
            let code = try await server.code()
            func redeem(_ nonce: String?) async throws -> Answer {
                let proof = try owner.proof(server.tokenURL, now: server.time.seconds, nonce: nonce)
                return try await server.redeem(code, proofs: [proof])
            }
            let refused = try await redeem(nil)
            try refused.expectError(400, "use_dpop_nonce")
            let name = try #require(HTTPField.Name("DPoP-Nonce"))
            let nonce = try #require(refused.headers[name])
            var forged = Array(nonce)
            forged[forged.count - 5] = forged[forged.count - 5] == "A" ? "B" : "A"
            for wrong in ["", "AAAA", String(forged), String(nonce.dropLast(4))] {
                try await redeem(wrong).expectError(400, "use_dpop_nonce")
            }
            server.time.advance(by: 301)
            let old = try await server.redeem(
                server.code(),
                proofs: [owner.proof(server.tokenURL, now: server.time.seconds, nonce: nonce)])
            try old.expectError(400, "use_dpop_nonce")
            let fresh = try #require(old.headers[name])
            let accepted = try await server.redeem(
                server.code(),
                proofs: [owner.proof(server.tokenURL, now: server.time.seconds, nonce: fresh)])
            try accepted.success()
            #expect(accepted.headers[name] != nil)
        }
    }
}
