import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import Testing

/// Against an OpenID provider that nobody here wrote.
@Suite(.softwareTPM, .requiresCanaille, .timeLimit(.minutes(3)))
struct ProviderTests {
    @Test func `discovery, user data, refresh, validation, questions and revocation work with Canaille`() async throws {
        try await Canaille.withRunning { provider in
            let directory = try TemporaryDirectory()
            let store = try await Self.store(SoftwareTPM.current.tcti, directory)
            let context = Token.Context(issuer: provider.issuer, clientID: "app")
            let token = try Token(
                [
                    "access_token": "access-0", "refresh_token": "refresh-0", "token_type": "Bearer",
                    "expires_in": 3600, "id_token": .string(provider.idToken),
                ], context: context)
            let credential = try await store.store(token: token)
            try await credential.oauth2.validate(token)
            #expect(try await credential.userInfo().name == "Jane Doe")
            #expect(try await credential.introspect().isActive)

            let refreshed = try await credential.refresh()
            #expect(refreshed.accessToken != "access-0" && refreshed.refreshToken != "refresh-0")
            #expect(refreshed.subject == "jane")
            let client = try credential.oauth2
            #expect(try await !client.introspect("access-0", kind: .accessToken).isActive)
            #expect(try await credential.userInfo().email == "jane@example.com")

            // The old refresh token was rotated away.
            let thief = try await store.store(
                token: Token(
                    ["access_token": "a", "refresh_token": "refresh-0", "token_type": "Bearer"], context: context))
            await #expect(throws: invalidGrant) { try await thief.refresh() }

            #expect(try await client.userInfo(accessToken: refreshed.accessToken).subject == "jane")
            try await credential.revoke()
            await #expect(throws: oauthError) { try await client.userInfo(accessToken: refreshed.accessToken) }
            #expect(try store.allIDs() == [thief.id])
            withExtendedLifetime(directory) {}
        }
    }

    private static func store(_ tcti: String, _ directory: TemporaryDirectory) async throws -> CredentialStore {
        let records = try await RecordStore(directory: directory.path)
        var configuration = CredentialStore.Configuration()
        configuration.clients = ["app": .clientSecret(SecretBytes("s3cret".utf8))]
        return CredentialStore(
            records: try RecordContainer(store: records, keystore: TPMKeystore(tcti: tcti, anchors: records)),
            transport: AsyncHTTPTransport(), configuration: configuration)
    }
}
