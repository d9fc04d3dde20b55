import Foundation
import Latchkey
import LatchkeyOAuth
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyCredentials

/// Credentials of a provider that we did not write, over real HTTP.
@Suite(.softwareTPM, .requiresOpenIDProvider)
struct CanailleTests {
    private func start(_ bench: Bench) async throws -> CredentialStore {
        try await bench.start(
            transport: CurlTransport(), configuration: CredentialConfiguration())
    }

    private func token(_ provider: OpenIDProvider) throws -> Token {
        try Token(
            response: provider.answer,
            context: Token.Context(
                issuer: provider.issuer, clientID: provider.clientID,
                clientSecret: provider.clientSecret))
    }

    @Test func `discovery, validation, refresh, the user's data, introspection and revocation`()
        async throws
    {
        let bench = try Bench()
        // Two of its access tokens of one second would be the same text.
        let (_, requests) = try await OpenIDProvider.withRunning(holding: 1) { provider in
            let store = try await start(bench)
            let first = try token(provider)
            let credential = try store.store(first, tags: ["provider": "canaille"])
            #expect(
                try store.find { $0.subject == "jane" && $0.email == "jane@example.com" } == [
                    credential
                ])
            let idToken = try #require(first.idToken)
            let client = try await credential.server
            try await client.validate(idToken, .init(nonce: "n", accessToken: first.accessToken))
            await #expect(throws: credentials(.invalidToken)) {
                try await client.validate(idToken, .init(nonce: "m"))
            }
            await #expect(throws: credentials(.invalidToken)) {
                try await client.validate(idToken, .init(nonce: "n", accessToken: "another"))
            }

            #expect(try await credential.userInfo().name == "Jane Doe")
            #expect(try await credential.introspect().isActive)
            let second = try await credential.refresh()
            #expect(second.accessToken != first.accessToken)
            #expect(second.refreshToken != first.refreshToken)
            // It takes a refresh token once.
            await #expect(throws: credentials(.signInAgain)) {
                try await client.exchange(first, at: Date())
            }
            let third = try await credential.refresh()
            #expect(try await credential.userInfo().subject == "jane")
            #expect(try await bench.start().credential(id: first.id)?.token == third)

            try await credential.revoke()
            #expect(try store.allCredentials.isEmpty)
            #expect(try await !client.introspect(.accessToken, of: third).isActive)
            await #expect(throws: credentials(.signInAgain)) {
                try await client.exchange(third, at: Date())
            }
        }
        #expect(requests == 4)
    }
}
