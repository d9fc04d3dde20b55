import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// What AuthFoundation has stored, and the texts of its prompts.
extension CredentialPortingTests {
    /// `UserDefaults` with what AuthFoundation stores on Linux. Its file is deleted with its values.
    private struct Stored {
        static let (tokens, metadata, defaultID) = (
            "com.okta.authfoundation.allTokens", "com.okta.authfoundation.tokenMetadata",
            "com.okta.authfoundation.defaultToken"
        )

        private let name = "latchkey-test-\(UUID().uuidString)"
        let defaults: UserDefaults

        init() throws { defaults = try #require(UserDefaults(suiteName: name)) }

        func set(_ tokens: [String: Any], tags: [String: [String: String]], defaultID: String)
            throws
        {
            defaults.set(
                try JSONSerialization.data(withJSONObject: tokens), forKey: Self.tokens)
            let metadata = tags.map { ($0, ["id": $0, "tags": $1] as [String: Any]) }
            defaults.set(
                try JSONSerialization.data(
                    withJSONObject: Dictionary(uniqueKeysWithValues: metadata)),
                forKey: Self.metadata)
            defaults.set(defaultID, forKey: Self.defaultID)
        }

        func close() {
            defaults.removePersistentDomain(forName: name)
            _ = defaults.synchronize()
        }
    }

    /// A token as AuthFoundation 2 encodes it.
    private func encoded(
        _ response: Data, id: String, at date: Date, of server: IdentityProcess
    ) throws -> [String: Any] {
        [
            "id": id, "issuedAt": date.timeIntervalSinceReferenceDate,
            "context": [
                "configuration": [
                    "issuerURL": server.endpoint, "clientId": server.clientID,
                    "discoveryURL": server.endpoint + "/.well-known/openid-configuration",
                    "scope": "openid offline_access", "authentication": ["none": [:]],
                ]
            ],
            "rawValue": try JSONSerialization.jsonObject(with: response),
        ]
    }

    /// The same token as AuthFoundation 1 encodes it.
    private func encodedAsVersion1(
        _ response: Data, id: String, at date: Date, of server: IdentityProcess
    ) throws -> [String: Any] {
        let members = try #require(
            try JSONSerialization.jsonObject(with: response) as? [String: Any])
        return [
            "id": id, "issuedAt": date.timeIntervalSinceReferenceDate,
            "accessToken": try #require(members["access_token"]),
            "tokenType": try #require(members["token_type"]),
            "expiresIn": try #require(members["expires_in"]),
            "refreshToken": try #require(members["refresh_token"]),
            "idToken": try #require(members["id_token"]),
            "context": [
                "configuration": [
                    "baseURL": server.endpoint, "clientId": server.clientID, "scopes": "openid",
                    "authentication": ["clientSecret": ["_0": "secret"]],
                ]
            ],
        ]
    }

    @Test func `stored tokens are moved once, with their ids, tags and default`() async throws {
        let directory = try TemporaryDirectory()
        let stored = try Stored()
        defer { stored.close() }
        try await IdentityProcess.withRunning(["--demo"]) { server in
            try await CredentialStore.bootstrap(
                CredentialStore(records: makeRecords(in: directory)))
            defer { Credential.storage = nil }
            let now = Date()
            let responses = [
                try await FormBrowser.tokenResponse(of: server),
                try await FormBrowser.tokenResponse(of: server),
            ]
            let tokens: [String: Any] = [
                "NEW": try encoded(responses[0], id: "NEW", at: now, of: server),
                "OLD": try encodedAsVersion1(
                    responses[1], id: "OLD", at: now.addingTimeInterval(-60), of: server),
            ]
            try stored.set(tokens, tags: ["OLD": ["service": "purchase"]], defaultID: "NEW")
            try Migration.migrateIfNeeded(from: stored.defaults)
            #expect(try Credential.allIDs == ["OLD", "NEW"])
            #expect(Credential.default?.id == "NEW")
            let found = try Credential.find { $0.tags["service"] == "purchase" }
            #expect(found.map(\.id) == ["OLD"])
            let new = try #require(Credential.default)
            let token = try await new.token
            #expect(token.context.issuer == server.endpoint)
            #expect(token.context.clientID == server.clientID)
            #expect(abs(token.issuedAt.timeIntervalSince(now)) < 0.01)
            // The server accepts the moved tokens.
            #expect(try await new.userInfo().subject == token.subject)
            #expect(try await new.refresh().refreshToken != token.refreshToken)

            #expect(stored.defaults.data(forKey: Stored.tokens) == nil)
            #expect(stored.defaults.data(forKey: Stored.metadata) == nil)
            try new.remove()
            try Migration.migrateIfNeeded(from: stored.defaults)
            #expect(try Credential.allIDs == ["OLD"])
        }
    }

    @Test func `a token that cannot be read stays, and a stored one is not replaced`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let stored = try Stored()
        defer { stored.close() }
        try await IdentityProcess.withRunning(["--demo"]) { server in
            let store = try await CredentialStore(records: makeRecords(in: directory))
            #expect(throws: Never.self) { try Migration.migrateIfNeeded(from: stored.defaults) }
            let response = try await FormBrowser.tokenResponse(of: server)
            let token = try encoded(response, id: "one", at: Date(), of: server)
            var damaged = token
            damaged["context"] = ["configuration": ["issuerURL": "http://evil.test"]]
            try stored.set(
                ["one": token, "damaged": damaged, "moved": token], tags: [:], defaultID: "one")
            let without = #expect(throws: CredentialError.self) {
                try Migration.migrateIfNeeded(from: stored.defaults)
            }
            #expect(without?.code == .notConfigured)
            try await CredentialStore.bootstrap(store)
            defer { Credential.storage = nil }
            for _ in 1...2 {
                let error = #expect(throws: CredentialError.self) {
                    try Migration.migrateIfNeeded(from: stored.defaults)
                }
                #expect(error?.code == .invalidInput)
                #expect(error?.reason.contains("‘damaged’, ‘moved’") == true)
                #expect(try Credential.allIDs == ["one"])
            }
            let rest = try #require(stored.defaults.data(forKey: Stored.tokens))
            #expect(!String(decoding: rest, as: UTF8.self).contains(#""one":"#))
        }
    }

    @Test func `a token whose stored credential is damaged stays`() async throws {
        let directory = try TemporaryDirectory()
        let stored = try Stored()
        defer { stored.close() }
        try await IdentityProcess.withRunning(["--demo"]) { server in
            let records = try await makeRecords(in: directory)
            try await CredentialStore.bootstrap(CredentialStore(records: records))
            defer { Credential.storage = nil }
            let response = try await FormBrowser.tokenResponse(of: server)
            let tokens = ["one": try encoded(response, id: "one", at: Date(), of: server)]
            try stored.set(tokens, tags: [:], defaultID: "one")
            try Migration.migrateIfNeeded(from: stored.defaults)
            // The same again, as after a crash between storing and deleting.
            try stored.set(tokens, tags: [:], defaultID: "one")
            try Migration.migrateIfNeeded(from: stored.defaults)
            #expect(stored.defaults.data(forKey: Stored.tokens) == nil)
            try stored.set(tokens, tags: [:], defaultID: "one")
            try records.applyNow([
                .put(
                    Record(id: "credential.token.one", kind: "credential.token"),
                    payload: SecretBytes(Data("{}".utf8)), ifGeneration: nil)
            ])
            let error = #expect(throws: CredentialError.self) {
                try Migration.migrateIfNeeded(from: stored.defaults)
            }
            #expect(error?.code == .invalidInput)
            #expect(error?.reason.contains("‘one’") == true)
            #expect(stored.defaults.data(forKey: Stored.tokens) != nil)
            try #require(try Credential.with(id: "one")).remove()
            try Migration.migrateIfNeeded(from: stored.defaults)
            let credential = try #require(try Credential.with(id: "one"))
            #expect(try await credential.token.refreshToken != nil)
            #expect(stored.defaults.data(forKey: Stored.tokens) == nil)
        }
    }

    @Test func `the text of a search is in the prompts of its credentials`() async throws {
        let directory = try TemporaryDirectory()
        let presence = ScriptedPresence(Array(repeating: .pin("2468"), count: 8))
        try await CredentialStore.bootstrap(
            CredentialStore(records: makeRecords(in: directory), presence: presence))
        defer { Credential.storage = nil }
        let token = try Token(
            response: Data(#"{"access_token":"a","token_type":"Bearer"}"#.utf8),
            context: Token.Context(issuer: "https://id.test", clientID: "app"), id: "one")
        try await Credential.store(
            token: token, tags: ["a": "b"], security: .pin, reason: "keep it")
        let credential = try #require(
            try Credential.find(where: { $0.tags["a"] == "b" }, prompt: "show the bill").first)
        _ = try await credential.token
        let same = try #require(try Credential.with(id: "one", prompt: "pay the bill"))
        _ = try await same.token
        _ = try await credential.token(reason: "log out")
        _ = try #require(try Credential.find { $0.tags["a"] == "b" }.first)
        _ = try await same.token
        #expect(
            presence.asked.map(\.reason) == [
                "keep it", "show the bill", "pay the bill", "log out", "pay the bill",
            ])
    }
}
