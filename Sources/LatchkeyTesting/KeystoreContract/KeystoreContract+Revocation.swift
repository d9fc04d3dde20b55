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

    private func refusesRevocation(_ keystore: any Keystore) async throws {
        let presence = person(.right)
        await Self.expect(.unsupported, of: "seal revocably") {
            _ = try await keystore.sealRevocably(
                .random(count: 32), policy: freeSecret, for: Self.prompt, authorizedBy: presence
            ) { _ in }
        }
        #expect(presence.asked.isEmpty)
        guard let plain = try await sealed(keystore, freeSecret) else { return }
        await Self.expect(.unsupported, of: "take a secret back") { try await keystore.revoke(plain) }
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
