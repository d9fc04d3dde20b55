import Latchkey
import LatchkeyPKCS11
import LatchkeyTesting
import Testing

@testable import LatchkeyPKCS11

/// Tokens that create and delete keys only after a login, whatever the keys' policy, and tokens
/// that fail for a moment.
@Suite(.requires(program: "softhsm2-util"), .softwareToken)
struct WriteLoginTests {
    private static let notLoggedIn = "return \(ReturnValue.userNotLoggedIn.rawValue) 1"

    private func keystore(_ hostile: HostileToken) throws -> PKCS11Keystore {
        try PKCS11Keystore(uri: hostile.uri)
    }

    private func create(
        _ keystore: PKCS11Keystore, _ presence: ScriptedPresence
    ) async throws(KeystoreError) -> HardwareKey {
        try await keystore.createKey(
            KeyRequest(policy: .none, prompt: KeystoreBench.prompt), authorizedBy: presence)
    }

    @Test func `a key without a PIN gets the PIN prompt when it is created, and not when it signs`()
        async throws
    {
        let hostile = try HostileToken()
        let keystore = try keystore(hostile)
        try hostile.tell("C_GenerateKeyPair \(Self.notLoggedIn)")
        let presence = ScriptedPresence(pins: "correct", "correct")
        let key = try await create(keystore, presence)
        #expect(presence.requests.map(\.purpose) == [.current])
        #expect(key.policy == .none)
        #expect(key.assurance.presence == .none)
        _ = try await KeystoreBench.sign(with: key, on: keystore, ScriptedPresence([]))
        try hostile.tell("C_DestroyObject \(Self.notLoggedIn)")
        try await keystore.delete(key, for: KeystoreBench.prompt, authorizedBy: presence)
        #expect(presence.requests.map(\.purpose) == [.current, .current])
    }

    @Test func `a wrong PIN at that prompt is sent once`() async throws {
        let hostile = try HostileToken()
        try hostile.tell("C_GenerateKeyPair \(Self.notLoggedIn)")
        let keystore = try keystore(hostile)
        let error = try await KeystoreBench.error {
            _ = try await create(keystore, ScriptedPresence(pins: "wrong"))
        }
        #expect(error.code == .wrongProof)
        #expect(try hostile.count(of: "C_Login") == 1)
    }

    @Test func `a secret without a PIN gets the PIN prompt for the first sealing key only`()
        async throws
    {
        let hostile = try HostileToken()
        let keystore = try keystore(hostile)
        try hostile.tell("C_GenerateKeyPair \(Self.notLoggedIn)")
        let secret = SecretBytes.random(count: 32)
        let presence = ScriptedPresence(pins: "correct")
        let sealed = try await keystore.seal(
            secret, policy: .none, for: KeystoreBench.prompt, authorizedBy: presence)
        #expect(presence.requests.map(\.purpose) == [.current])
        let opened = try await keystore.unseal(
            sealed, for: KeystoreBench.prompt, authorizedBy: ScriptedPresence([]))
        #expect(opened == secret)
    }

    @Test(arguments: ["C_GenerateKeyPair", "C_OpenSession", "C_FindObjectsInit", "C_GetSlotList"])
    func `SoftHSM2 is used again after an answer to a concurrent write`(_ function: String)
        async throws
    {
        let hostile = try HostileToken()
        let keystore = try keystore(hostile)
        _ = try await keystore.capabilities()
        try hostile.tell("\(function) return \(ReturnValue.generalError.rawValue) 2")
        let presence = ScriptedPresence(pins: "correct")
        let key = try await keystore.createKey(
            KeyRequest(policy: .pin, prompt: KeystoreBench.prompt), authorizedBy: presence)
        #expect(presence.requests.count == 1)
        _ = try await KeystoreBench.sign(with: key, on: keystore)
    }

    @Test func `SoftHSM2's token is found after a concurrent write`() async throws {
        let hostile = try HostileToken()
        try hostile.tell("C_GetTokenInfo return \(ReturnValue.tokenNotPresent.rawValue) 4")
        #expect(try await hostile.token().information.label == "Latchkey")
    }
}
