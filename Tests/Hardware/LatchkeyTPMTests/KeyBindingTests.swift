import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// A key's ID, label and public half belong to the key, whatever a program writes into the store.
@Suite(.softwareTPM)
struct KeyBindingTests {
    /// The ways in which a key can be authorized.
    enum Way: CaseIterable {
        case ownPIN, revocablePIN, revocableWithoutPIN, withoutPIN

        var policy: AccessPolicy { [.ownPIN, .revocablePIN].contains(self) ? .pin : .none }
        var isRevocable: Bool { [.revocablePIN, .revocableWithoutPIN].contains(self) }
    }

    private let wire = Wire()

    private func keystore() throws -> TPMKeystore { wire.keystore(try SoftwareTPM.current) }

    private func key(_ keystore: TPMKeystore, _ way: Way, _ label: String?) async throws
        -> HardwareKey
    {
        let request = KeyRequest(policy: way.policy, label: label, prompt: Scene.prompt)
        let presence = ScriptedPresence(pins: "123456")
        guard way.isRevocable else {
            return try await keystore.createKey(request, authorizedBy: presence)
        }
        return try await keystore.createRevocableKey(request, authorizedBy: presence) { _ in }
    }

    /// A forged row: one key's, with parts of another one's.
    private func row(
        of key: HardwareKey, id: KeyID? = nil, label: String? = nil, material: HardwareKey? = nil,
        blob: Data? = nil
    ) -> HardwareKey {
        HardwareKey(
            id: id ?? key.id, backend: key.backend, policy: key.policy, assurance: key.assurance,
            publicKey: (material ?? key).publicKey, label: label ?? key.label,
            createdAt: key.createdAt,
            blob: blob ?? (material ?? key).blob, authorization: (material ?? key).authorization)
    }

    private func refusal(_ keystore: TPMKeystore, _ key: HardwareKey) async -> (
        KeystoreError.Code?, UInt32?
    ) {
        let error = await Scene.error { () async throws(KeystoreError) in
            try await Scene.sign(keystore, key)
        }
        return (error?.code, error?.underlying?.rawCode)
    }

    // MARK: Attacks

    @Test(arguments: Way.allCases)
    func `a row with another key's ID, label or material is damaged, without prompt or hardware`(
        _ way: Way
    ) async throws {
        let keystore = try keystore()
        let (mine, other) = (
            try await key(keystore, way, "mine"), try await key(keystore, way, "test")
        )
        wire.forget()
        for edited in [
            row(of: mine, label: "test"), row(of: mine, label: ""), row(of: mine, id: other.id),
            row(of: mine, material: other), row(of: mine, blob: other.blob),
        ] {
            let presence = ScriptedPresence(pins: "123456")
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, edited, presence)
            }
            #expect(error?.code == .damaged)
            #expect(presence.requests.isEmpty)
        }
        #expect(wire.codes.isEmpty)
        for key in [mine, other] { try await Scene.sign(keystore, key) }
    }

    /// The row of the key ‘test’ gets everything of another key with the same PIN, and a binding
    /// that fits.
    @Test(arguments: [Way.ownPIN, .revocablePIN, .revocableWithoutPIN])
    func `the TPM refuses a key whose recorded binding is forged`(_ way: Way) async throws {
        let keystore = try keystore()
        let (mine, other) = (
            try await key(keystore, way, "mine"), try await key(keystore, way, "test")
        )
        var forged = try TPMKeyBlob(mine.blob)
        forged.origin?.binding = KeyBinding(id: other.id, label: other.label)
        let edited = row(of: other, material: mine, blob: try forged.serialized)
        #expect(try keystore.keyBlob(of: edited) == forged, "the store itself shows nothing")
        var stripped = forged
        stripped.origin = nil
        let unbound = row(of: other, material: mine, blob: try stripped.serialized)
        #expect(await self.refusal(keystore, unbound).0 == .damaged)
        let refusal = await refusal(keystore, edited)
        #expect(refusal == (way.policy == .pin ? (.wrongProof, 0x98e) : (.damaged, 0x9a2)))
        for key in [mine, other] { try await Scene.sign(keystore, key) }
    }

    // MARK: Renaming

    @Test(arguments: Way.allCases)
    func `a renamed key signs under its new label only`(_ way: Way) async throws {
        let keystore = try keystore()
        let key = try await key(keystore, way, "mine")
        let presence = ScriptedPresence(pins: "123456")
        let renamed = try await keystore.rename(
            key, to: "ours", for: Scene.prompt, authorizedBy: presence)
        #expect(presence.requests.map(\.purpose) == (way.policy == .pin ? [.current] : []))
        #expect(
            renamed.label == "ours" && renamed.id == key.id && renamed.publicKey == key.publicKey)
        #expect(renamed.authorization == key.authorization, "no second index")
        try await Scene.sign(keystore, renamed)
        #expect(await refusal(keystore, row(of: renamed, label: "mine")).0 == .damaged)
        #expect(await refusal(keystore, row(of: key, label: "ours")).0 == .damaged)
        try Scene.expectNothingLoaded("after renaming")
    }

    @Test func `an interrupted renaming of a revocable key is finished by another call`()
        async throws
    {
        let keystore = try keystore()
        let key = try await key(keystore, .revocablePIN, "mine")
        let rename = { () async throws(KeystoreError) in
            try await keystore.rename(
                key, to: "ours", for: Scene.prompt, authorizedBy: ScriptedPresence(pins: "123456"))
        }
        // The result of the first call is lost, as in a crash before the row is stored.
        let lost = try await rename()
        let renamed = try await rename()
        #expect(renamed.blob == lost.blob)
        try await Scene.sign(keystore, renamed)
        #expect(await refusal(keystore, key) == (.wrongProof, 0x98e))
    }

    @Test(arguments: [Way.ownPIN, .revocablePIN])
    func `with a wrong PIN, the key keeps its label`(_ way: Way) async throws {
        let keystore = try keystore()
        let key = try await key(keystore, way, "mine")
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.rename(
                key, to: "ours", for: Scene.prompt, authorizedBy: ScriptedPresence(pins: "000000"))
        }
        #expect(error?.code == .wrongProof && error?.underlying?.rawCode == 0x98e)
        try await Scene.sign(keystore, key)
    }

    @Test(arguments: [Way.ownPIN, .revocablePIN])
    func `after a PIN change, a key is still bound to its row`(_ way: Way) async throws {
        let keystore = try keystore()
        let key = try await key(keystore, way, "mine")
        let changed = try #require(
            try await keystore.changePIN(
                of: [key], secrets: [], for: Scene.prompt,
                authorizedBy: ScriptedPresence(pins: "123456", "654321")
            ).keys.first)
        try await Scene.sign(keystore, changed, pin: "654321")
        #expect(await refusal(keystore, row(of: changed, label: "test")).0 == .damaged)
    }
}
