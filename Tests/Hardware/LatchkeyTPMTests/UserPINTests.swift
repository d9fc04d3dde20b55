import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

/// The user's PIN, with and without a fingerprint.
@Suite(.softwareTPM)
struct UserPINTests {
    @Test func `one PIN, set once, opens all of a user's keys`() async throws {
        try await Scene.withBroker { wire, keystore, broker in
            let presence = ScriptedPresence(
                Array(repeating: .pin("123456"), count: 4), broker: broker)
            let first = try await Scene.key(keystore, .pin, presence)
            let second = try await Scene.key(keystore, .pin, presence)
            #expect(first.assurance.pinProtection == .user)
            #expect(presence.requests.map(\.purpose) == [.new, .current])
            try await Scene.sign(keystore, first, presence)
            wire.forget()
            try await Scene.sign(keystore, second, presence)
            #expect(
                wire.codes == [
                    .nvRead, .startAuthSession, .startAuthSession, .policySecret, .load, .sign,
                    .flushContext,
                ])
            #expect(presence.requests.last?.attemptsLeft == 10)
        }
    }

    @Test func `a PIN that another program set is refused before a key is bound to it`()
        async throws
    {
        try await Scene.withBroker(.matches) { _, keystore, broker in
            _ = try await Scene.key(
                keystore, .pin, ScriptedPresence([.pin("malware's")], broker: broker))
            for policy in [AccessPolicy.pin, .userPresence] {
                let error = await Scene.error { () async throws(KeystoreError) in
                    _ = try await keystore.createKey(
                        KeyRequest(policy: policy, prompt: Scene.prompt),
                        authorizedBy: ScriptedPresence([.pin("123456")], broker: broker))
                }
                #expect(error?.code == .wrongProof)
                #expect(error?.underlying?.rawCode == 0x9a2)
            }
        }
    }

    @Test func `wrong PINs lock this user only, not the TPM, and a finger ends the lock`()
        async throws
    {
        try await Scene.withBroker(.matches) { _, keystore, broker in
            let key = try await Scene.key(
                keystore, .userPresence, ScriptedPresence([.pin("123456")], broker: broker))
            #expect(key.assurance.presence == .fingerOrPIN)
            func sign(_ pin: String) async -> KeystoreError? {
                let presence = ScriptedPresence([.pin(pin)], broker: broker, preferring: .pin)
                return await Scene.error { () async throws(KeystoreError) in
                    try await Scene.sign(keystore, key, presence)
                }
            }
            for left in stride(from: 9, through: 0, by: -1) {
                let error = await sign("654321")
                #expect(error?.code == .wrongProof)
                #expect(error?.attemptsLeft == left)
                #expect(error?.underlying?.rawCode == 0x9a2)
            }
            #expect(await sign("123456")?.code == .lockedOut)
            #expect(
                try Scene.look { try $0.properties(from: .lockoutCounter, count: 1) }[
                    .lockoutCounter] == 0)
            let nobody = ScriptedPresence([], broker: broker)
            try await Scene.sign(keystore, key, nobody)
            #expect(nobody.requests.isEmpty, "a locked PIN isn't asked for")
            #expect(await sign("123456") == nil)
        }
    }

    @Test func `finger and PIN are prompted for together, and the first proof counts`() async throws
    {
        try await Scene.withBroker(.stays, .matches, .differs, .approvesFor(1001)) {
            _, keystore, broker in
            let key = try await Scene.key(
                keystore, .userPresence, ScriptedPresence([.pin("123456")], broker: broker))
            try await Scene.sign(keystore, key, ScriptedPresence([.pin("123456")], broker: broker))
            try await Scene.sign(keystore, key, ScriptedPresence([.hesitate], broker: broker))
            let declined = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(
                    keystore, key, ScriptedPresence([.unavailable], broker: broker))
            }
            #expect(declined?.code == .wrongProof, "another finger, and no PIN")
            let stranger = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, ScriptedPresence([.hesitate], broker: broker))
            }
            #expect(stranger?.underlying?.rawCode == 0x5db, "an approval for another user")
        }
    }

    @Test func `after a PIN change, no copy accepts the old PIN`() async throws {
        try await Scene.withBroker { _, keystore, broker in
            let presence = ScriptedPresence(
                [.pin("123456"), .pin("123456"), .pin("another"), .pin("another"), .pin("123456")],
                broker: broker)
            let key = try await Scene.key(keystore, .pin, presence)
            let changed = try await keystore.changePIN(
                of: [key], secrets: [], for: Scene.prompt, authorizedBy: presence)
            #expect(changed.keys == [key], "nothing of the key changes")
            try await Scene.sign(keystore, key, presence)
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, presence)
            }
            #expect(error?.code == .wrongProof)
        }
    }

    @Test func `an index that an attacker defined again opens nothing, and the broker ignores it`()
        async throws
    {
        try await Scene.withBroker { _, keystore, broker in
            let presence = ScriptedPresence([.pin("123456"), .pin("123456")], broker: broker)
            let key = try await Scene.key(keystore, .pin, presence)
            let terms = try await broker.terms(for: .pin)
            let area = try NVPublicArea(
                unmarshalling: Array(try #require(terms.userPIN).publicArea))
            let fresh = NVPublicArea(
                index: area.index, attributes: area.attributes.subtracting(.written),
                authPolicy: area.authPolicy,
                dataSize: 8)
            try Scene.look { tpm in
                try tpm.execute(NVUndefineSpace(try NVIndex(publicArea: area)))
                try tpm.execute(NVDefineSpace(fresh))
            }
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, presence)
            }
            #expect(error?.code == .invalidated)
            let reset = await Scene.error { () async throws(KeystoreError) in
                try await broker.authority.resetPIN(of: broker.user)
            }
            #expect(reset?.code == .notFound)
            let again = try await broker.terms(for: .pin)
            #expect(again.userPIN == nil)
        }
    }

    /// Removes the index of a user's PIN, as each program with the TPM can if the owner has no
    /// password.
    private func removeIndex(_ pin: PresenceTerms.UserPIN?) throws {
        let area = try NVPublicArea(unmarshalling: Array(try #require(pin).publicArea))
        try Scene.look { try $0.execute(NVUndefineSpace(try NVIndex(publicArea: area))) }
    }

    @Test func `the PIN of a removed index does not count as a wrong PIN of another user`()
        async throws
    {
        try await Scene.withBroker { _, keystore, broker in
            let presence = ScriptedPresence([.pin("123456"), .pin("123456")], broker: broker)
            let key = try await Scene.key(keystore, .pin, presence)
            let own = try await broker.terms(for: .pin).userPIN
            try removeIndex(own)
            let other = try await broker.authority.makePIN(for: 1001)
            let handles = [own?.publicArea, other.pin.publicArea].map { $0?.prefix(4) }
            #expect(handles[0] != handles[1], "the new index got the handle of the removed one")
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, presence)
            }
            #expect(error?.code == .invalidated)
            let area = Array(other.pin.publicArea)
            let bytes = try Scene.look { tpm in
                try tpm.nvRead(try NVIndex(unmarshalling: area), by: Hierarchy.owner)
            }
            #expect(bytes == [0, 0, 0, 0, 0, 0, 0, 10], "no attempt of the other user is used")
        }
    }

    /// A broker without the state of the one before it.
    @Test func `the right PIN of an index that another one replaced is invalidated, not wrong`()
        async throws
    {
        try await Scene.withBroker { _, keystore, broker in
            let presence = ScriptedPresence([.pin("123456"), .pin("123456")], broker: broker)
            let key = try await Scene.key(keystore, .pin, presence)
            let own = try await broker.terms(for: .pin).userPIN
            try removeIndex(own)
            try await TemporaryDirectory.withDirectory { directory in
                let second = try await ApprovalAuthority(
                    tcti: try SoftwareTPM.current.tcti, directory: directory.path)
                let other = try await second.makePIN(for: 1001)
                #expect(other.pin.publicArea.prefix(4) == own?.publicArea.prefix(4))
                let error = await Scene.error { () async throws(KeystoreError) in
                    try await Scene.sign(keystore, key, presence)
                }
                #expect(error?.code == .invalidated)
                #expect(
                    error?.reason == "your PIN was removed from the TPM and cannot be restored")
            }
        }
    }

    @Test func `the administrator removes a user, and a new account with the user ID sets its PIN`()
        async throws
    {
        try await Scene.withBroker { _, keystore, broker in
            let presence = ScriptedPresence(
                [.pin("123456"), .pin("123456"), .pin("another"), .pin("another")], broker: broker)
            let key = try await Scene.key(keystore, .pin, presence)
            _ = try await Scene.key(keystore, .biometryCurrentSet, presence)
            #expect(broker.authority.users == [broker.user: 2])
            func indices() throws -> Int {
                try Scene.look { tpm in
                    try tpm.handles(from: TPMHandle(rawValue: 0x0180_4c00), count: 255)
                        .count { $0.rawValue < 0x0180_4cff }
                }
            }
            #expect(try indices() == 2)
            try await broker.authority.forget(broker.user)
            #expect(broker.authority.users.isEmpty)
            #expect(try indices() == 0)
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, presence)
            }
            #expect(error?.code == .invalidated)
            let new = ScriptedPresence([.pin("another"), .pin("another")], broker: broker)
            try await Scene.sign(keystore, try await Scene.key(keystore, .pin, new), new)
            #expect(new.requests.map(\.purpose) == [.new, .current])
            let unknown = await Scene.error { () async throws(KeystoreError) in
                try await broker.authority.forget(4711)
            }
            #expect(unknown?.code == .notFound)
        }
    }

    @Test func `a container has only the user's PIN until a key has its own`() async throws {
        try await Scene.withBroker { _, keystore, broker in
            let directory = try TemporaryDirectory()
            let store = try await RecordStore(directory: directory.path)
            let container = try RecordContainer(store: store, keystore: keystore)
            let user = ScriptedPresence(
                Array(repeating: .pin("123456"), count: 4), broker: broker)
            func put(_ key: HardwareKey) -> RecordChange {
                .put(Record(key: key), payload: nil, ifGeneration: 0)
            }
            let note = Record(
                id: "a", kind: "note", protection: ProtectionClass(name: "gated", policy: .pin))
            let first = try await Scene.key(keystore, .pin, user)
            let second = try await Scene.key(keystore, .none, user)
            try await container.apply(
                [put(first), put(second), .put(note, payload: SecretBytes([1]), ifGeneration: 0)],
                for: Scene.prompt, authorizedBy: user)
            #expect(try await container.hasOnlyUserPIN())
            let own = try await Scene.key(keystore, .pin, ScriptedPresence(pins: "97531864"))
            try await container.apply([put(own)], for: Scene.prompt)
            #expect(try await !container.hasOnlyUserPIN())
            // The class of a vault.
            let other = try RecordContainer(name: "other", store: store, keystore: keystore)
            try await other.apply(
                [.put(note, payload: SecretBytes([1]), ifGeneration: 0)], for: Scene.prompt,
                authorizedBy: ScriptedPresence(pins: "97531864"))
            #expect(try await !other.hasOnlyUserPIN())
        }
    }

    @Test func `neither the PIN nor a value derived from it is on the wire`() async throws {
        try await Scene.withBroker { wire, keystore, broker in
            wire.forget()
            let presence = ScriptedPresence(
                [.pin("4938175602"), .pin("4938175602"), .pin("4938175602"), .pin("1729384756")],
                broker: broker)
            let key = try await Scene.key(keystore, .pin, presence)
            try await Scene.sign(keystore, key, presence)
            _ = try await keystore.changePIN(
                of: [key], secrets: [], for: Scene.prompt, authorizedBy: presence)
            let terms = try await broker.terms(for: .pin)
            let area = try NVPublicArea(
                unmarshalling: Array(try #require(terms.userPIN).publicArea))
            #expect(wire.codes.contains(.nvChangeAuth))
            for pin in ["4938175602", "1729384756"] {
                let derived = HKDF<SHA256>.deriveKey(
                    inputKeyMaterial: SymmetricKey(data: Array(pin.utf8)),
                    salt: area.authPolicy.prefix(16),
                    info: Array("latchkey/tpm/pin/v1".utf8), outputByteCount: 32)
                for secret in [Array(pin.utf8), derived.withUnsafeBytes { Array($0) }] {
                    #expect(wire.bytes.firstRange(of: secret.prefix(8)) == nil)
                }
            }
        }
    }
}
