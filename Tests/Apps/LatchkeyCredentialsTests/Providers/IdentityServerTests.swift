import Foundation
import HTTPTypes
import Latchkey
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyCredentials

/// Credentials of our own identity server, over real HTTP.
@Suite(.softwareTPM)
struct IdentityServerTests {
    @Test func `discovery, validation, refresh, the user's data and revocation`() async throws {
        let bench = try Bench()
        try await IdentityProcess.withRunning(["--demo"]) { try await use($0, bench) }
    }

    private func use(_ server: IdentityProcess, _ bench: Bench) async throws {
        let store = try await bench.start(
            transport: CurlTransport(), configuration: CredentialConfiguration())
        let first = try Token(
            response: try await FormBrowser.tokenResponse(of: server),
            context: Token.Context(issuer: server.endpoint, clientID: server.clientID))
        let credential = try store.store(first)
        let idToken = try #require(first.idToken)
        try await credential.server.validate(
            idToken, .init(nonce: "n", accessToken: first.accessToken))
        #expect(try await credential.userInfo().subject == idToken.subject)
        let second = try await credential.refresh()
        #expect(second.accessToken != first.accessToken)
        #expect(try await credential.userInfo().subject == idToken.subject)
        try await credential.revoke()
        #expect(try store.allCredentials.isEmpty)
        await #expect(throws: credentials(.signInAgain)) { try await store.store(second).refresh() }
    }

    @Test func `the client reads the server's documents, and refreshes a token that is not stored`()
        async throws
    {
        let bench = try Bench()
        try await IdentityProcess.withRunning(["--demo"]) { server in
            let store = try await bench.start(
                transport: CurlTransport(), configuration: CredentialConfiguration())
            let context = Token.Context(issuer: server.endpoint, clientID: server.clientID)
            let stored = try store.store(
                Token(
                    response: try await FormBrowser.tokenResponse(of: server), context: context))
            let client = stored.oauth2
            let configuration = try await client.openIdConfiguration()
            #expect(configuration.issuer == server.endpoint)
            #expect(
                configuration.authorizationEndpoint?.absoluteString
                    == "\(server.endpoint)/oauth2/authorize")
            #expect(configuration.tokenEndpoint.absoluteString == "\(server.endpoint)/oauth2/token")
            let scopes: [String]? = configuration["scopes_supported"]
            #expect(scopes?.contains("openid") == true)

            let keys = try await client.jwks()
            let first = try Token(
                response: try await FormBrowser.tokenResponse(of: server), context: context)
            let idToken = try JWT(try #require(first.idToken).rawValue)
            #expect(try idToken.validate(using: keys))
            #expect(try keys.keys.contains { key in try key.verify(token: idToken) })
            #expect(try #require(idToken.expirationTime) > #require(idToken.issuedAt))
            let updatedAt: Date = try await client.userInfo(token: first).value(for: .updatedAt)
            #expect(updatedAt <= Date())

            let second = try await client.refresh(first)
            #expect(second.id == first.id && second.subject == first.subject)
            #expect(second.token(of: .refreshToken) != first.token(of: .refreshToken))
            #expect(try await client.userInfo(token: second).subject == first.subject)
            await #expect(throws: credentials(.signInAgain)) { try await client.refresh(first) }
            // The credential's own refresh stores the new token.
            await #expect(throws: credentials(.refused)) {
                try await client.refresh(stored.token)
            }
            try await stored.refresh()
        }
    }

    @Test func `the code of an app's own login gives the first token, once and only to the app`()
        async throws
    {
        let bench = try Bench()
        try await IdentityProcess.withRunning(["--demo"]) { server in
            let transport = RecordingTransport()
            let store = try await bench.start(
                transport: transport, configuration: CredentialConfiguration())
            let context = Token.Context(issuer: server.endpoint, clientID: server.clientID)
            let client = OAuth2Client(store: store) { context }
            let pkce = PKCE()
            func redeem(
                _ code: String, _ verifier: String = pkce.codeVerifier, nonce: String? = "n"
            ) async throws -> Token {
                try await client.exchange(
                    authorizationCode: code, issuer: server.endpoint, codeVerifier: verifier,
                    redirectURI: FormBrowser.redirectURI, nonce: nonce)
            }
            func code(_ more: [String: String] = ["nonce": "n"]) async throws -> String {
                try await FormBrowser.code(of: server, pkce.codeChallenge, more)
            }
            let first = try await code()
            await #expect(throws: credentials(.oauthError)) {
                try await redeem(first, PKCE().codeVerifier)
            }
            let second = try await code()
            let token = try await redeem(second)
            #expect(token.context == context)
            #expect(try await client.userInfo(token: token).subject == token.subject)
            let credential = try store.store(token)
            #expect(try await credential.refresh().subject == token.subject)
            await #expect(throws: credentials(.oauthError)) { try await redeem(second) }
            #expect(try await redeem(code([:]), nonce: nil).subject == token.subject)

            // The answer to another login: its tokens end.
            #expect(transport.count("/oauth2/revoke") == 0)
            let stranger = try await code(["nonce": "other"])
            await #expect(throws: credentials(.invalidToken)) { try await redeem(stranger) }
            #expect(transport.count("/oauth2/revoke") == 1)
        }
    }

    @Test func `a refresh token from elsewhere gives a token, once`() async throws {
        let bench = try Bench()
        try await IdentityProcess.withRunning(["--demo"]) { server in
            let store = try await bench.start(
                transport: CurlTransport(), configuration: CredentialConfiguration())
            let context = Token.Context(issuer: server.endpoint, clientID: server.clientID)
            let first = try Token(
                response: try await FormBrowser.tokenResponse(of: server), context: context)
            let client = try store.store(first).oauth2
            let refreshToken = try #require(first.refreshToken)
            let token = try await Token.from(refreshToken: refreshToken, using: client)
            #expect(token.context == context)
            #expect(token.subject == first.subject)
            #expect(token.refreshToken != refreshToken)
            #expect(try await client.userInfo(token: token).subject == first.subject)
            await #expect(throws: credentials(.signInAgain)) {
                try await Token.from(refreshToken: refreshToken, using: client)
            }
        }
    }
}

/// Counts requests by their paths.
private final class RecordingTransport: HTTPTransport {
    private let paths = Mutex<[String]>([])

    func count(_ path: String) -> Int { paths.withLock { $0.count { $0 == path } } }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        paths.withLock { $0.append(request.path ?? "") }
        return try await CurlTransport().send(request, body: body)
    }
}
