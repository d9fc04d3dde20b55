import Foundation
import HTTPTypes
import Latchkey
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyCredentials

/// Credentials whose tokens the real server binds to a key in the TPM (RFC 9449).
@Suite(.softwareTPM)
struct BoundCredentialTests {
    private func start(_ bench: Bench) async throws -> CredentialStore {
        try await bench.start(
            transport: CurlTransport(), configuration: CredentialConfiguration())
    }

    @Test func `a bound credential is used, refreshed and removed with its key`() async throws {
        let bench = try Bench()
        try await IdentityProcess.with(client: ["dpop": "access_tokens"]) { server in
            let store = try await start(bench)
            let token = try await signIn(server, store)
            #expect(token.tokenType == "DPoP")
            let credential = try store.store(token)
            #expect(try await credential.userInfo().subject == token.subject)
            // Another process has the key from the store.
            let other = try await start(bench)
            let same = try #require(try other.credential(id: token.id))
            let second = try await same.refresh()
            #expect(second.context.boundKey == token.context.boundKey)
            let resource = try #require(Endpoint(server.endpoint + "/oauth2/userinfo"))
            var request = resource.request(.get)
            try await same.authorize(&request)
            #expect(try await CurlTransport().send(request, body: []).0.status == .ok)
            #expect(try await CurlTransport().send(request, body: []).0.status == .unauthorized)

            // The key stays while a credential is bound to it.
            let next = try other.store(try await signIn(server, other))
            #expect(next.id != same.id)
            let boundKey = try await next.token.context.boundKey
            #expect(boundKey == second.context.boundKey)
            try same.remove()
            #expect(try other.records.idsNow(CredentialKeys.kind).count == 1)
            try await next.refresh()
            try next.remove()
            #expect(try other.records.idsNow(CredentialKeys.kind).isEmpty)
        }
    }

    @Test func `a stolen token is useless without its key, and a lost key needs a new login`()
        async throws
    {
        let bench = try Bench()
        try await IdentityProcess.with(client: ["dpop": "refresh_tokens"]) { server in
            let store = try await start(bench)
            let token = try await signIn(server, store)
            #expect(token.tokenType == "Bearer")
            let unbound = Token(
                id: "stolen", issuedAt: token.issuedAt,
                context: Token.Context(issuer: server.endpoint, clientID: server.clientID),
                idToken: token.idToken, checked: token.response)
            await #expect(throws: credentials(.unsupported)) {
                try await store.store(unbound).refresh()
            }
            // A store without the key, as on another machine.
            let elsewhere = try Bench()
            defer { withExtendedLifetime(elsewhere) {} }
            let other = try await start(elsewhere)
            await #expect(throws: credentials(.signInAgain)) {
                try await other.store(token).refresh()
            }
            // The attempts used nothing up.
            try await store.store(token).refresh()
            // Who finds a token can end its session without the key.
            let found = try #require(try other.credential(id: token.id))
            try await found.revoke(type: .all)
            let owner = try #require(try store.credential(id: token.id))
            await #expect(throws: credentials(.signInAgain)) { try await owner.refresh() }
        }
    }

    @Test func `a bound refresh token from elsewhere needs its key`() async throws {
        let bench = try Bench()
        try await IdentityProcess.with(client: ["dpop": "refresh_tokens"]) { server in
            let store = try await start(bench)
            let token = try await signIn(server, store)
            let refreshToken = try #require(token.refreshToken)
            let client = try store.store(token).oauth2
            await #expect(throws: credentials(.unsupported)) {
                try await Token.from(refreshToken: refreshToken, using: client)
            }
            let key = try await store.dpopKey(issuer: server.endpoint, clientID: server.clientID)
            let next = try await Token.from(
                refreshToken: refreshToken, using: client, boundTo: key)
            try await store.store(next).refresh()
        }
    }

    @Test func `a server that does not announce it gives no key`() async throws {
        let bench = try Bench()
        try await IdentityProcess.with { server in
            let store = try await start(bench)
            let key = try await store.dpopKey(issuer: server.endpoint, clientID: server.clientID)
            #expect(key == nil)
            #expect(try store.records.idsNow(CredentialKeys.kind).isEmpty)
        }
    }

    @Test func `a token names its key after it was encoded`() throws {
        let context = Token.Context(
            issuer: "https://id.test", clientID: "app", clientSecret: nil, boundKey: "jkt")
        let token = try Token(
            response: Data(#"{"access_token":"a","token_type":"DPoP"}"#.utf8), context: context)
        let read = try JSONDecoder().decode(Token.self, from: JSONEncoder().encode(token))
        #expect(read.context.boundKey == "jkt")
        #expect(try token.authorization == "DPoP a")
    }

    /// Logs in on the server's page, and redeems the code with a proof, as an app does.
    private func signIn(_ server: IdentityProcess, _ store: CredentialStore) async throws -> Token {
        let key = try #require(
            try await store.dpopKey(issuer: server.endpoint, clientID: server.clientID))
        let pkce = PKCE()
        let code = try await FormBrowser.code(
            of: server, pkce.codeChallenge, ["dpop_jkt": key.thumbprint, "nonce": "n"])
        let client = OAuth2Client(store: store) {
            Token.Context(issuer: server.endpoint, clientID: server.clientID)
        }
        // The code is bound to the key, and a request without its proof does not use it up.
        await #expect(throws: CredentialError.self) {
            try await client.exchange(
                authorizationCode: code, issuer: server.endpoint,
                codeVerifier: pkce.codeVerifier, redirectURI: FormBrowser.redirectURI)
        }
        return try await client.exchange(
            authorizationCode: code, issuer: server.endpoint, codeVerifier: pkce.codeVerifier,
            redirectURI: FormBrowser.redirectURI, nonce: "n", boundTo: key)
    }
}
