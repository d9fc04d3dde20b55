internal import Latchkey
internal import Testing

extension KeystoreContract {
    func changesPIN(_ keystore: any Keystore) async throws {
        if case .atReader = device.pin { return try await leavesThePINToTheReader(keystore) }
        let first = try await makeKey(keystore, guarded)
        let second = try await makeKey(keystore, guarded)
        let secret = try await sealed(keystore, guarded)

        let bytes: SecretBytes? = if let secret { try await unseal(keystore, secret) } else { nil }
        let presence = person(.right, .new)
        let changed = try await keystore.changePIN(
            of: [first, second], secrets: [secret].compactMap(\.self), for: Self.prompt, authorizedBy: presence)
        #expect(presence.requests.map(\.purpose) == [.current, .new])
        #expect(changed.keys.map(\.id) == [first.id, second.id])
        #expect(changed.keys.map(\.publicKey) == [first.publicKey, second.publicKey])
        #expect(changed.secrets.count == (secret == nil ? 0 : 1))

        for key in changed.keys {
            let signature = try await sign(keystore, key, .new)
            #expect(key.publicKey.isValid(signature, for: Self.digest))
        }
        for secret in changed.secrets {
            #expect(try await unseal(keystore, secret, .new) == bytes)
        }

        await Self.expect(.wrongProof, of: "sign with the old PIN") {
            _ = try await sign(keystore, changed.keys[0], .right)
        }
        for secret in changed.secrets {
            await Self.expect(.wrongProof, of: "unseal with the old PIN") {
                _ = try await unseal(keystore, secret, .right)
            }
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
