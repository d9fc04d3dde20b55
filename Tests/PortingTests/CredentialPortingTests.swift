import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import Testing

/// The seed's own code, running. One test, since a program has one shared store.
@Suite(.softwareTPM)
struct CredentialPortingTests {
    @Test func `an app of the seed's reader stores, finds and chooses credentials`() async throws {
        let directory = try TemporaryDirectory()
        let store = try await RecordStore(directory: directory.path)
        let records = try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
        let app = CredentialApp()
        #expect(throws: KeystoreError.self) { try app.find(serviceTokenId: "t1") }
        try await CredentialStore.bootstrap(CredentialStore(records: records, transport: RecordingTransport()))
        app.observe()

        #expect(try app.find(serviceTokenId: "t1") == nil)
        #expect(Credential.default == nil)
        let claims = Base64URL.encode(Data(#"{"sub":"jane.doe@example.com"}"#.utf8))
        let header = Base64URL.encode(Data("{}".utf8))
        let token = try Token(
            ["access_token": "a", "token_type": "Bearer", "id_token": .string("\(header).\(claims).AA")],
            context: .init(issuer: "https://id.test", clientID: "app"), id: "t1")
        #expect(try app.store(newToken: token) == "t1")
        #expect(try app.find(serviceTokenId: "t1") == "t1")
        #expect(try app.findUser() == 1)

        let credential = try #require(Credential.default)
        #expect(credential.id == "t1")
        #expect(try Self.same(token) === credential)
        #expect(Credential.allCredentials == [credential])
        credential.tags["service"] = "mail"
        #expect(try Credential.find { $0.tags["service"] == "mail" } == [credential])
        Credential.default = nil
        #expect(Credential.default == nil)
        Credential.default = credential
        #expect(try another(records).defaultCredential()?.id == "t1")
        try Self.remove(credential)
        #expect(Credential.allCredentials.isEmpty && Credential.default == nil)
    }

    private func another(_ records: RecordContainer) -> CredentialStore {
        CredentialStore(records: records, transport: RecordingTransport())
    }

    private static func same(_ token: Token) throws -> Credential { try Credential.with(token: token) }
    private static func remove(_ credential: Credential) throws { try credential.remove() }
}
