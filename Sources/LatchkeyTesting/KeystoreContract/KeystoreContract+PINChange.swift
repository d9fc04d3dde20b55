internal import Latchkey
internal import Testing

extension KeystoreContract {
    func changesPIN(_ keystore: any Keystore) async throws {
        if case .atReader = device.pin { return try await leavesThePINToTheReader(keystore) }
        let first = try await makeKey(keystore, guarded)
        let second = try await makeKey(keystore, guarded)
        let bytes = SecretBytes.random(count: 32)
        let secret = try await seal(keystore, bytes, guarded)

        let presence = person(.right, .new)
        let changed = try await keystore.changePIN(
            of: [first, second], secrets: [secret], for: Self.prompt, authorizedBy: presence)
        #expect(presence.requests.map(\.purpose) == [.current, .new])
        #expect(changed.keys.map(\.id) == [first.id, second.id])
        #expect(changed.keys.map(\.publicKey) == [first.publicKey, second.publicKey])
        try #require(changed.secrets.count == 1)

        for key in changed.keys {
            let signature = try await sign(keystore, key, .new)
            #expect(key.publicKey.isValid(signature, for: Self.digest))
        }
        #expect(try await unseal(keystore, changed.secrets[0], .new) == bytes)

        await Self.expect(.wrongProof, of: "sign with the old PIN") {
            _ = try await sign(keystore, changed.keys[0], .right)
        }
        await Self.expect(.wrongProof, of: "unseal with the old PIN") {
            _ = try await unseal(keystore, changed.secrets[0], .right)
        }
    }

    func changeNeedsOldPIN(_ keystore: any Keystore) async throws {
        if case .atReader = device.pin { return try await leavesThePINToTheReader(keystore) }
        let key = try await makeKey(keystore, guarded)
        await Self.expect(.wrongProof, of: "change the PIN") {
            _ = try await keystore.changePIN(
                of: [key], secrets: [], for: Self.prompt,
                authorizedBy: person(.wrong, .new))
        }
        let signature = try await sign(keystore, key)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }

    func declinedChange(_ keystore: any Keystore) async throws {
        if case .atReader = device.pin { return try await leavesThePINToTheReader(keystore) }
        let key = try await makeKey(keystore, guarded)
        for proofs: [Device.Proof] in [[.declined], [.right, .declined]] {
            let presence = device.person(proofs)
            await Self.expect(.cancelled, of: "change the PIN") {
                _ = try await keystore.changePIN(of: [key], secrets: [], for: Self.prompt, authorizedBy: presence)
            }
            #expect(presence.requests.count == proofs.count)
        }
        let signature = try await sign(keystore, key)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }

    /// What only the reader asks for, only the reader can change.
    private func leavesThePINToTheReader(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        await Self.expect(.unsupported, of: "change what the reader asks for") {
            _ = try await keystore.changePIN(
                of: [key], secrets: [], for: Self.prompt, authorizedBy: person(.right, .new))
        }
        let signature = try await sign(keystore, key)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }
}
