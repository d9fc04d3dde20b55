internal import Latchkey
internal import Synchronization
internal import Testing

extension KeystoreContract {
    func takesBack(_ keystore: any Keystore) async throws {
        let capabilities = try await keystore.capabilities()
        guard capabilities.sealsRevocably else { return try await refusesRevocation(keystore) }
        for requirement in [AccessPolicy.Requirement.none, guarded.requirement]
        where capabilities.sealing.contains(requirement) {
            let policy = try #require(AccessPolicy(requirement))
            let (bytes, others) = (SecretBytes.random(count: 32), SecretBytes.random(count: 32))
            let secret = try await sealRevocably(keystore, bytes, policy)
            let other = try await sealRevocably(keystore, others, policy)
            #expect(secret.isRevocable && secret.policy == policy && secret.backend == keystore.backend)
            #expect(try await unseal(keystore, secret) == bytes)
            try await keystore.revoke(secret)
            await Self.expect(.invalidated, of: "unseal what was taken back, under \(policy)") {
                _ = try await unseal(keystore, secret)
            }
            try await keystore.revoke(secret)
            #expect(try await unseal(keystore, other) == others, "another secret is what it was")
            try await keystore.revoke(other)
            await Self.expect(.invalidated, of: "unseal the other one after that") {
                _ = try await unseal(keystore, other)
            }
        }
        guard let plain = try await sealed(keystore, freeSecret) else { return }
        await Self.expect(.unsupported, of: "take back what was not sealed so") { try await keystore.revoke(plain) }
        _ = try await unseal(keystore, plain)
    }

    func takesBackKeys(_ keystore: any Keystore) async throws {
        #expect(try await !makeKey(keystore, guarded).isRevocable, "an ordinary key is not revocable")
        guard try await keystore.capabilities().sealsRevocably else { return try await refusesRevocableKeys(keystore) }
        for policy in [AccessPolicy.none, guarded] {
            let (first, second) = (try await revocableKey(keystore, policy), try await revocableKey(keystore, policy))
            for key in [first, second] {
                #expect(key.isRevocable && key.policy == policy)
                #expect(key.publicKey.isValid(try await sign(keystore, key), for: Self.digest))
            }
            let changed = try await keystore.changePIN(
                of: [first], secrets: [], for: Self.prompt, authorizedBy: person(.right, .new))
            #expect(changed.keys == [first], "it is changed in its place")
            if policy == guarded {
                await Self.expect(.wrongProof, of: "sign with the old PIN") { _ = try await sign(keystore, first) }
            }
            #expect(first.publicKey.isValid(try await sign(keystore, first, .new), for: Self.digest))
            try await keystore.delete(first)
            await Self.expect(.invalidated, of: "sign with what was taken back, under \(policy)") {
                _ = try await sign(keystore, first, .new)
            }
            try await keystore.delete(first)
            #expect(second.publicKey.isValid(try await sign(keystore, second), for: Self.digest), "another key stays")
            try await keystore.delete(second)
            await Self.expect(.invalidated, of: "sign with the other one after that") {
                _ = try await sign(keystore, second)
            }
        }
    }

    private func revocableKey(_ keystore: any Keystore, _ policy: AccessPolicy) async throws -> HardwareKey {
        let announced = Mutex<SealedSecret?>(nil)
        let key = try await keystore.createRevocableKey(
            KeyRequest(policy: policy, prompt: Self.prompt), authorizedBy: person(.right)
        ) { announcement in announced.withLock { $0 = announcement } }
        #expect(announced.withLock { $0 } == key.authorization, "what is made was announced")
        return key
    }

    private func refusesRevocableKeys(_ keystore: any Keystore) async throws {
        let presence = person(.right)
        await Self.expect(.unsupported, of: "make a revocable key") {
            _ = try await keystore.createRevocableKey(
                KeyRequest(policy: guarded, prompt: Self.prompt), authorizedBy: presence
            ) { _ in }
        }
        #expect(presence.asked.isEmpty)
    }

    private func refusesRevocation(_ keystore: any Keystore) async throws {
        let presence = person(.right)
        await Self.expect(.unsupported, of: "seal revocably") {
            _ = try await keystore.sealRevocably(
                .random(count: 32), policy: freeSecret, for: Self.prompt, authorizedBy: presence
            ) { _ in }
        }
        #expect(presence.asked.isEmpty)
        guard let plain = try await sealed(keystore, freeSecret) else { return }
        await Self.expect(.unsupported, of: "revoke a secret") { try await keystore.revoke(plain) }
    }

    private func sealRevocably(
        _ keystore: any Keystore, _ bytes: SecretBytes, _ policy: AccessPolicy
    ) async throws -> SealedSecret {
        let announced = Mutex<SealedSecret?>(nil)
        let sealed = try await keystore.sealRevocably(
            bytes, policy: policy, for: Self.prompt, authorizedBy: person(.right)
        ) { announcement in announced.withLock { $0 = announcement } }
        #expect(announced.withLock { $0 } == sealed, "what is made was announced")
        return sealed
    }
}
