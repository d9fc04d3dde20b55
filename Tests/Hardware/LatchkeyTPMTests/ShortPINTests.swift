import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import TPM2
import TPM2TCTI
import Testing

/// PINs that the TPM counts, where every user can reset its count.
@Suite(.requires(program: "swtpm"))
struct ShortPINTests {
    private static let short = "25802"
    private let wire = Wire()

    @Test func `an empty lockout password lets every user reset the count of wrong PINs`()
        async throws
    {
        try await withTPM { tpm, keystore in
            let key = try await Scene.key(keystore)
            let limit = try #require(try await keystore.pinStatus().attemptsLeft)
            let connection = try TCTIConnection(tpm.tcti)
            defer { connection.close() }
            for _ in 0...limit {
                let error = await Scene.error { () async throws(KeystoreError) in
                    try await Scene.sign(keystore, key, pin: "000000")
                }
                #expect(error?.code == .wrongProof)
                try TPM(connection).execute(
                    DictionaryAttackLockReset(), authorizedBy: .emptyPassword)
            }
            #expect(try await keystore.pinStatus().attemptsLeft == limit)
        }
        try await withTPM(hasLockoutPassword: true) { tpm, _ in
            let connection = try TCTIConnection(tpm.tcti)
            defer { connection.close() }
            #expect(throws: TPMError.self) {
                try TPM(connection).execute(
                    DictionaryAttackLockReset(), authorizedBy: .emptyPassword)
            }
        }
    }

    @Test func `a short PIN is refused for keys, secrets and PIN changes, and nothing is created`()
        async throws
    {
        try await withTPM { tpm, keystore in
            let request = KeyRequest(policy: .pin, prompt: Scene.prompt)
            let key = try await Scene.key(keystore)
            wire.forget()
            await expectShort { (presence) async throws(KeystoreError) in
                _ = try await keystore.createKey(request, authorizedBy: presence)
            }
            #expect(wire.codes == [.readPublic, .getCapability])
            await expectShort { (presence) async throws(KeystoreError) in
                _ = try await keystore.createRevocableKey(request, authorizedBy: presence) { _ in }
            }
            await expectShort { (presence) async throws(KeystoreError) in
                _ = try await keystore.seal(
                    .random(count: 32), policy: .pin, for: Scene.prompt, authorizedBy: presence)
            }
            await expectShort(first: "123456") { (presence) async throws(KeystoreError) in
                _ = try await keystore.changePIN(
                    of: [key], secrets: [], for: Scene.prompt, authorizedBy: presence)
            }
            try await Scene.sign(keystore, key)
        }
    }

    @Test func `a person is prompted again for a longer PIN, and a script is not`() async throws {
        try await withTPM { _, keystore in
            let request = KeyRequest(policy: .pin, prompt: Scene.prompt)
            let presence = ScriptedPresence([.pin(Self.short), .pin("258036")])
            let key = try await keystore.createKey(request, authorizedBy: presence)
            #expect(presence.requests.map(\.minimumCharacters) == [4, 6])
            try await Scene.sign(keystore, key, pin: "258036")
        }
    }

    @Test func `a lockout password, a longer PIN or an explicit option permits the key`()
        async throws
    {
        try await withTPM(hasLockoutPassword: true) { _, keystore in
            _ = try await Scene.key(keystore, pin: Self.short)
        }
        try await withTPM { tpm, keystore in
            _ = try await Scene.key(keystore, pin: "ปลอดภัยมาก")
            let insisting = TPMKeystore(
                tcti: tpm.tcti, anchors: MemoryTrustAnchors(), allowsShortPINs: true)
            let key = try await Scene.key(insisting, pin: Self.short)
            try await Scene.sign(keystore, key, pin: Self.short)
        }
    }

    /// Characters are counted, not bytes.
    @Test func `five characters of another script are short too`() async throws {
        try await withTPM { _, keystore in
            await expectShort(pin: "ÄÖÜäö") { (presence) async throws(KeystoreError) in
                _ = try await keystore.createKey(
                    KeyRequest(policy: .pin, prompt: Scene.prompt), authorizedBy: presence)
            }
        }
    }

    /// A container's PIN was chosen before the rule, or before the lockout password was removed.
    @Test func `a container's existing short PIN also protects new records`() async throws {
        try await withTPM { tpm, keystore in
            let directory = try TemporaryDirectory()
            let store = try await RecordStore(directory: directory.path)
            func records(_ allowsShortPINs: Bool) throws -> RecordContainer {
                let keystore = TPMKeystore(
                    tcti: tpm.tcti, anchors: store, allowsShortPINs: allowsShortPINs)
                return try RecordContainer(store: store, keystore: keystore)
            }
            let put = { (id: RecordID, name: String) in
                RecordChange.put(
                    Record(
                        id: id, kind: "note", protection: ProtectionClass(name: name, policy: .pin)),
                    payload: SecretBytes([1]), ifGeneration: 0)
            }
            try await records(true).apply(
                [put("a", "one")], for: Scene.prompt,
                authorizedBy: ScriptedPresence(pins: Self.short))
            try await records(false).apply(
                [put("b", "two")], for: Scene.prompt,
                authorizedBy: ScriptedPresence(pins: Self.short))
            let other = try RecordContainer(
                name: "other", store: store, keystore: TPMKeystore(tcti: tpm.tcti, anchors: store))
            await expectShort { (presence) async throws(KeystoreError) in
                try await other.apply([put("a", "one")], for: Scene.prompt, authorizedBy: presence)
            }
        }
    }

    private func expectShort(
        first: String? = nil, pin: String = Self.short,
        _ body: (ScriptedPresence) async throws(KeystoreError) -> Void
    ) async {
        let presence = ScriptedPresence(
            ([first, pin, pin] as [String?]).compactMap { $0.map { .pin($0) } })
        let error = await Scene.error { () async throws(KeystoreError) in try await body(presence) }
        #expect(error?.code == .invalidInput)
        #expect(
            error?.reason.hasPrefix(
                "the PIN has fewer than 6 characters, and the TPM's lockout password") == true)
        for wayOut in ["longer PIN", "sudo tpm2_changeauth -c lockout file:-"] {
            #expect(error?.recovery.contains(wayOut) == true)
        }
        #expect(error?.recoveryAction.actions == [.allowShortPIN])
    }

    private func withTPM(
        hasLockoutPassword: Bool = false, _ body: (SoftwareTPM, TPMKeystore) async throws -> Void
    ) async throws {
        let tpm = try await SoftwareTPM(hasLockoutPassword: hasLockoutPassword)
        try await body(tpm, wire.keystore(tpm))
        await tpm.cutPower()
    }
}
