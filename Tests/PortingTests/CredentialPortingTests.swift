import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import Testing

/// Runs the code of AuthFoundation's article on the main actor, as an app does. One test, because a program has one storage.
@Suite(.softwareTPM) @MainActor
struct CredentialPortingTests {
    @Test func `an app of the iOS library finds its credentials`() async throws {
        #expect(throws: CredentialError.self) { try Credential.with(id: "x") }
        let directory = try TemporaryDirectory()
        let rows = try await RecordStore(directory: directory.path)
        let records = try RecordContainer(
            store: rows, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: rows))
        try await CredentialStore.bootstrap(CredentialStore(records: records, transport: RecordingTransport()))
        defer { Credential.storage = nil }
        #expect(Credential.default == nil)

        let payload = Data(#"{"iss":"https://id.test","sub":"jane.doe@example.com","aud":"app"}"#.utf8)
        let idToken = "\(Base64URL.encode(Data("{}".utf8))).\(Base64URL.encode(payload)).AA"
        let answer = Data(#"{"access_token":"a","token_type":"Bearer","id_token":"\#(idToken)"}"#.utf8)
        let observer = CredentialApp.observe()
        defer { NotificationCenter.default.removeObserver(observer) }
        try CredentialApp.store(newToken: Token(response: answer, id: "one"))
        try CredentialApp.use(serviceTokenId: "one")
        try CredentialApp.use(serviceTokenId: "two")
        try CredentialApp.findUser()
        #expect(CredentialApp.done.filter { !$0.hasPrefix("default") } == ["tag one", "id one", #"claim ["one"]"#])

        #expect(Credential.default?.id == "one")
        // The observer is on the main queue, and so are we: it runs while we wait.
        let deadline = ContinuousClock.now + .seconds(20)
        while !CredentialApp.done.contains("default one"), ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(5))
        }
        #expect(CredentialApp.done.last == "default one")
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
        #expect(Set((0..<5).compactMap { _ in Credential.default.map { ObjectIdentifier($0) } }).count == 1)
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
}
