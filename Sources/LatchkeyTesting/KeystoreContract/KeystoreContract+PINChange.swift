internal import Latchkey
internal import Testing

extension KeystoreContract {
    func changesPIN(_ keystore: any Keystore) async throws {
        let first = try await Self.makeKey(keystore, .pin, pin: "the old one")
        let second = try await Self.makeKey(keystore, .pin, pin: "the old one")
        let bytes = SecretBytes.random(count: 32)
        let secret = try await keystore.seal(
            bytes, policy: .pin, for: Self.prompt, authorizedBy: ScriptedPresence(pins: "the old one"))

        let presence = ScriptedPresence(pins: "the old one", "the new one")
        let changed = try await keystore.changePIN(
            of: [first, second], secrets: [secret], for: Self.prompt, authorizedBy: presence)
        #expect(presence.requests.map(\.purpose) == [.current, .new])
        #expect(changed.keys.map(\.id) == [first.id, second.id])
        #expect(changed.keys.map(\.publicKey) == [first.publicKey, second.publicKey])
        try #require(changed.secrets.count == 1)

        for key in changed.keys {
            let signature = try await Self.sign(keystore, key, pin: "the new one")
            #expect(key.publicKey.isValid(signature, for: Self.digest))
        }
        #expect(try await Self.unseal(keystore, changed.secrets[0], pin: "the new one") == bytes)

        await Self.expect(.wrongProof, of: "sign with the old PIN") {
            _ = try await Self.sign(keystore, changed.keys[0], pin: "the old one")
        }
        await Self.expect(.wrongProof, of: "unseal with the old PIN") {
            _ = try await Self.unseal(keystore, changed.secrets[0], pin: "the old one")
        }
    }

    func changeNeedsOldPIN(_ keystore: any Keystore) async throws {
        let key = try await Self.makeKey(keystore, .pin, pin: "the old one")
        await Self.expect(.wrongProof, of: "change the PIN") {
            _ = try await keystore.changePIN(
                of: [key], secrets: [], for: Self.prompt,
                authorizedBy: ScriptedPresence(pins: "not the old one", "the new one"))
        }
        let signature = try await Self.sign(keystore, key, pin: "the old one")
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }

    func declinedChange(_ keystore: any Keystore) async throws {
        let key = try await Self.makeKey(keystore, .pin, pin: "the old one")
        for steps: [ScriptedPresence.Step] in [[.decline], [.pin("the old one"), .decline]] {
            let presence = ScriptedPresence(steps)
            await Self.expect(.cancelled, of: "change the PIN") {
                _ = try await keystore.changePIN(of: [key], secrets: [], for: Self.prompt, authorizedBy: presence)
            }
            #expect(presence.requests.count == steps.count)
        }
        let signature = try await Self.sign(keystore, key, pin: "the old one")
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }
}
