import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Runs the code of AuthFoundation's article on the main actor, as an app does, and checks its
/// statements. One test at a time, because a program has one storage.
@Suite(.softwareTPM, .serialized) @MainActor
struct CredentialPortingTests {
    /// The app's rows in a new directory.
    func makeRecords(in directory: TemporaryDirectory) async throws -> RecordContainer {
        let store = try await RecordStore(directory: directory.path)
        return try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
    }

    /// The app's actions. Excludes notifications, because stores of other tests post them too.
    private var actions: [String] {
        CredentialApp.done.filter { !$0.hasPrefix("default") && $0 != "signed out" }
    }

    /// Whether the app received these notifications in order, perhaps with those of other tests
    /// between them.
    private func received(_ expected: [String]) -> Bool {
        var rest = expected[...]
        for notification in CredentialApp.done where notification == rest.first {
            rest.removeFirst()
        }
        return rest.isEmpty
    }

    /// A token response with an ID token.
    ///
    /// - Parameter claims: JSON members after those that name the server, the client and the user.
    private func response(of subject: String, _ claims: String = "") -> Data {
        let payload = Data(
            #"{"iss":"https://id.test","aud":"app","sub":"\#(subject)"\#(claims)}"#.utf8)
        let idToken = "\(Base64URL.encode(Data("{}".utf8))).\(Base64URL.encode(payload)).AA"
        return Data(#"{"access_token":"a","token_type":"Bearer","id_token":"\#(idToken)"}"#.utf8)
    }

    @Test func `an app of the iOS library finds its credentials`() async throws {
        #expect(throws: CredentialError.self) { try Credential.with(id: "x") }
        let directory = try TemporaryDirectory()
        let rows = try await RecordStore(directory: directory.path)
        let records = try RecordContainer(
            store: rows, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: rows))
        try await CredentialStore.bootstrap(
            CredentialStore(records: records, transport: RecordingTransport()))
        defer { Credential.storage = nil }
        #expect(Credential.default == nil)

        let payload = Data(
            #"{"iss":"https://id.test","sub":"jane.doe@example.com","aud":"app"}"#.utf8)
        let idToken = "\(Base64URL.encode(Data("{}".utf8))).\(Base64URL.encode(payload)).AA"
        let answer = Data(
            #"{"access_token":"a","token_type":"Bearer","id_token":"\#(idToken)"}"#.utf8)
        let observer = CredentialApp.observe()
        defer { NotificationCenter.default.removeObserver(observer) }
        try CredentialApp.store(newToken: Token(response: answer, id: "one"))
        try CredentialApp.use(serviceTokenId: "one")
        try CredentialApp.use(serviceTokenId: "two")
        try CredentialApp.findUser()
        #expect(actions == ["tag one", "id one", #"claim ["one"]"#])

        #expect(Credential.default?.id == "one")
        // The observer is on the main queue, and so are we: it runs while we wait.
        try await wait { received(["default one"]) }
        let two = try Credential.with(token: Token(response: answer, id: "two"))
        #expect(try Credential.with(id: "two") === two)
        // Five calls, one object, also if the app keeps none; an automatic refresh continues.
        let lasting = Data(
            #"{"access_token":"a","token_type":"Bearer","id_token":"\#(idToken)","refresh_token":"r","expires_in":3600}"#
                .utf8)
        let objects = try (0..<5).map { _ in
            ObjectIdentifier(try Credential.with(token: Token(response: lasting, id: "three")))
        }
        #expect(Set(objects).count == 1)
        #expect(
            Set((0..<5).compactMap { _ in Credential.default.map { ObjectIdentifier($0) } }).count
                == 1)
        Credential.default = try Credential.with(id: "three")
        Credential.default?.automaticRefresh = true
        #expect(Credential.default?.automaticRefresh == true)
        Credential.default?.automaticRefresh = false
        try Credential.with(id: "three")?.remove()
        Credential.default = two
        let restarted = CredentialStore(records: records, transport: RecordingTransport())
        #expect(try restarted.defaultCredential?.id == "two")
        two.tags = ["service": "other"]
        #expect(try Credential.find { $0.tags["service"] == "other" } == [two])
        #expect(try Credential.allCredentials.map(\.id) == ["one", "two"])
        try two.remove()
        #expect(try Credential.allCredentials.map(\.id) == ["one"])
        #expect(Credential.default == nil)
    }
    @Test func `the default is kept across launches, and every change is posted`() async throws {
        CredentialApp.forget()
        let directory = try TemporaryDirectory()
        try await CredentialStore.bootstrap(
            CredentialStore(records: makeRecords(in: directory), transport: RecordingTransport()))
        defer { Credential.storage = nil }
        let observer = CredentialApp.observe()
        defer { NotificationCenter.default.removeObserver(observer) }
        // All tokens are assigned a unique id, and a token can be stored by the app itself, because
        // it is Codable.
        let (jane, june) = (
            try Token(response: response(of: "jane")),
            try JSONDecoder().decode(Token.self, from: response(of: "june"))
        )
        #expect(jane.id != june.id)
        #expect(try JSONDecoder().decode(Token.self, from: JSONEncoder().encode(jane)) == jane)

        // The first stored token becomes the default, also with(token:); a second does not.
        #expect(Credential.default == nil)
        let first = try Credential.with(token: jane)
        let second = try Credential.store(token: june, tags: ["service": "purchase"])
        #expect(first.id == jane.id && Credential.default === first)
        // Another default does not remove the old value.
        Credential.default = second
        #expect(try Credential.allCredentials == [first, second])
        #expect(try Credential.with(id: jane.id) === first)
        // The app's next launch.
        try await CredentialStore.bootstrap(
            CredentialStore(records: makeRecords(in: directory), transport: RecordingTransport()))
        let next = try #require(Credential.default)
        #expect(next.id == june.id)
        #expect(try await next.token == june)
        #expect(try Credential.allIDs == [jane.id, june.id])
        // The tags are updated by changing the property.
        next.tags["service"] = "support"
        #expect(try Credential.find { $0.tags["service"] == "purchase" }.isEmpty)
        #expect(try Credential.find { $0.tags["service"] == "support" } == [next])
        // Signed out, with both credentials stored; then one is removed.
        Credential.default = nil
        #expect(try Credential.allCredentials.count == 2)
        try next.remove()
        #expect(try Credential.allIDs == [jane.id])
        #expect(try Credential.with(id: june.id) == nil)
        try await wait { received(["default \(jane.id)", "default \(june.id)", "signed out"]) }
        let own = CredentialApp.done.filter { $0.hasSuffix(jane.id) || $0.hasSuffix(june.id) }
        #expect(own == ["default \(jane.id)", "default \(june.id)"])
    }

    @Test func `the claims that the ID token represents are available in the expression of find`()
        async throws
    {
        let directory = try TemporaryDirectory()
        try await CredentialStore.bootstrap(
            CredentialStore(records: makeRecords(in: directory), transport: RecordingTransport()))
        defer { Credential.storage = nil }
        let groups = (0..<100).map { #""group-\#($0)-of-the-organization""# }.joined(separator: ",")
        let claims = #"""
            ,"name":"Jane","email":"jane@id.test","acr":"urn:strong","amr":["pwd","otp"],"sid":"s1","azp":"app",\#
            "auth_time":1700000000,"exp":1900000000,"ver":1,"iat":1699999999,"nbf":1699999998,"level":0.5,"big":9007199254740993,"admin":true,"address":{"country":"AT"},"groups":[\#(groups)]
            """#
        let jane = try Credential.store(token: Token(response: response(of: "jane", claims)))
        try Credential.store(token: Token(response: response(of: "june")))
        let expressions: [(Token.Metadata) -> Bool] = [
            { $0.subject == "jane" }, { $0.name == "Jane" }, { $0.email == "jane@id.test" },
            { $0["acr"] == "urn:strong" }, { $0["amr"]?.array?.contains("otp") == true },
            { $0["sid"] == "s1" },
            { $0["azp"] == "app" }, { $0["auth_time"] == 1_700_000_000 },
            { $0["exp"] == 1_900_000_000 },
            { $0["iat"] == 1_699_999_999 }, { $0["nbf"]?.number ?? 0 > 1_699_999_997 },
            { $0["level"] == 0.5 },
            { $0["big"] == 9_007_199_254_740_993 },
            { $0["ver"] == 1 }, { $0["admin"] == true }, { $0["address"] == ["country": "AT"] },
            { $0["groups"]?.array?.contains("group-99-of-the-organization") == true },
        ]
        for (number, expression) in expressions.enumerated() {
            #expect(try Credential.find(where: expression) == [jane], "expression \(number)")
        }
        let queries: [(CredentialAttributes) -> CredentialQuery] = [
            { $0["level"] == 0.5 }, { $0["big"] == 9_007_199_254_740_993 },
            { $0["exp"] == 1_900_000_000 },
            { $0["groups"].contains("group-99-of-the-organization") },
            { $0["address"] == ["country": "AT"] },
        ]
        for (number, query) in queries.enumerated() {
            #expect(try Credential.find(where: query) == [jane], "query \(number)")
        }
        #expect(try Credential.find { $0["big"] == 9_007_199_254_740_992 }.isEmpty)
        #expect(try Credential.find { metadata in metadata.issuer == "https://id.test" }.count == 2)
    }

    /// The differences that the table of the article states.
    @Test func `a grace interval counts at most half of the lifetime, and lists can throw`()
        async throws
    {
        #expect(throws: CredentialError.self) { try Credential.allCredentials }
        #expect(throws: CredentialError.self) { try Credential.allIDs }
        let directory = try TemporaryDirectory()
        let wire = RecordingTransport()
        try await CredentialStore.bootstrap(
            CredentialStore(records: makeRecords(in: directory), transport: wire))
        defer { Credential.storage = nil }
        let answer = Data(
            #"{"access_token":"a","token_type":"Bearer","refresh_token":"r","expires_in":300}"#.utf8
        )
        let context = Token.Context(issuer: "https://id.test", clientID: "app")
        func credential(after seconds: TimeInterval) throws -> Credential {
            try Credential.store(
                token: Token(
                    response: answer, context: context,
                    receivedAt: Date().addingTimeInterval(-seconds)))
        }
        // 200 seconds are left, and the grace interval is 4,000: AuthFoundation refreshes it.
        try await credential(after: 100).refreshIfNeeded(graceInterval: 4000)
        #expect(wire.recordings.isEmpty)
        await #expect(throws: (any Error).self) {
            try await credential(after: 200).refreshIfNeeded(graceInterval: 4000)
        }
        #expect(!wire.recordings.isEmpty)
    }

    @Test func `a backup on a new device has no default, and the app starts over`() async throws {
        let directory = try TemporaryDirectory()
        try await CredentialStore.bootstrap(
            CredentialStore(records: makeRecords(in: directory), transport: RecordingTransport()))
        defer { Credential.storage = nil }
        let jane = try Token(response: response(of: "jane"))
        try Credential.store(token: jane)
        #expect(Credential.default?.id == jane.id)
        // The app's launch on the new device.
        Credential.storage = nil
        let (backup, tpm) = (try directory.copyOfStore(), try await SoftwareTPM())
        let rows = try await RecordStore(directory: backup.path)
        let store = CredentialStore(
            records: try RecordContainer(
                store: rows, keystore: TPMKeystore(tcti: tpm.tcti, anchors: rows)),
            transport: RecordingTransport())
        let error = await #expect(throws: KeystoreError.self) {
            try await CredentialStore.bootstrap(store)
        }
        #expect(error?.code == .wrongDevice)
        #expect(
            error?.recovery.contains("RecordStore.startOver()") == true, "\(error?.recovery ?? "")")
        #expect(Credential.default == nil)
        #expect(try store.defaultCredential == nil)
        try await rows.startOver()
        try await CredentialStore.bootstrap(store)
        #expect(try Credential.allCredentials.isEmpty)
        let june = try Credential.with(token: Token(response: response(of: "june")))
        #expect(Credential.default === june)
        await tpm.cutPower()
    }

    @Test(.requiresOpenIDProvider)
    func `a credential has the token, and refreshes, describes and revokes it`() async throws {
        CredentialApp.forget()
        let directory = try TemporaryDirectory()
        _ = try await OpenIDProvider.withRunning { provider in
            try await CredentialStore.bootstrap(
                CredentialStore(records: makeRecords(in: directory)))
            defer { Credential.storage = nil }
            let context = Token.Context(
                issuer: provider.issuer, clientID: provider.clientID,
                clientSecret: provider.clientSecret)
            let credential = try Credential.store(
                token: Token(response: provider.answer, context: context))
            try await CredentialApp.use(credential)
            let id = credential.id
            #expect(
                actions == [
                    "token \(id)", "refresh \(id)", "user info jane", "oauth2 true", "revoke",
                ])
            #expect(try Credential.allCredentials.isEmpty)
        }
    }
}
