internal import Latchkey
internal import LatchkeyTesting
internal import Synchronization
internal import Testing

extension KeystoreContract {
    /// A use of a key or secret with a proof.
    private typealias Use = (any PresenceAuthority) async throws -> Void

    func reusesProof(_ keystore: any Keystore) async throws {
        guard let (key, secret) = try await reusables(keystore) else { return }
        let first = person(.right)
        try await key(first)
        #expect(first.asked.count <= 1)
        let second = person()
        try await key(second)
        #expect(second.asked.isEmpty, "the proof is reused")
        // A keystore may prompt more often than the policy requires.
        try await secret?(person(.right))
    }

    func endsReuse(_ keystore: any Keystore) async throws {
        guard let (key, secret) = try await reusables(keystore) else { return }
        for (use, what) in [(key, "a key"), (secret, "a secret")] {
            guard let use else { continue }
            try await use(person(.right))
            keystore.endReuse()
            try await expectPrompt(what, use) { $0 }
        }
    }

    func endsReuseMidway(_ keystore: any Keystore) async throws {
        guard let (key, secret) = try await reusables(keystore) else { return }
        for (use, what) in [(key, "a key"), (secret, "a secret")] {
            guard let use else { continue }
            keystore.endReuse()
            try await use(LockedWhileAsked(person(.right), keystore))
            try await expectPrompt(what, use) { $0 }
        }
    }

    func promptsWhenReuseIsForbidden(_ keystore: any Keystore) async throws {
        guard let (key, secret) = try await reusables(keystore) else { return }
        for (use, what) in [(key, "a key"), (secret, "a secret")] {
            guard let use else { continue }
            try await use(person(.right))
            try await expectPrompt(what, use) { PresenceSession($0, acceptsEarlierProof: false) }
            keystore.endReuse()
            try await use(PresenceSession(person(.right), acceptsEarlierProof: false))
            try await expectPrompt("\(what), after a proof for one use", use) { $0 }
            if case .atReader = device.pin { continue }
            try await use(person(.right))
            await Self.expect(.unavailable, of: "use \(what) without a prompt") {
                try await use(NobodyPresent())
            }
        }
    }

    /// Expects a prompt, and that the use fails when the user declines.
    private func expectPrompt(
        _ what: String, _ use: Use, of authority: (ScriptedPresence) -> any PresenceAuthority
    ) async throws {
        let unwilling = person(.declined)
        await Self.expect(.cancelled, of: "use \(what)") { try await use(authority(unwilling)) }
        #expect(unwilling.asked.count == 1, "\(what)")
    }

    /// The uses of a key, and of a secret if the device seals, with a proof that is reusable for
    /// five minutes.
    ///
    /// - Returns: nil if the device reports the policy as unsupported, after a check that it did
    ///   not prompt.
    private func reusables(_ keystore: any Keystore) async throws -> (key: Use, secret: Use?)? {
        let policy = try #require(AccessPolicy(guarded.requirement, reuseSeconds: 300))
        let owner = person(.right)
        let key: HardwareKey
        do {
            key = try await create(keystore, KeyRequest(policy: policy, prompt: Self.prompt), owner)
        } catch let error as KeystoreError where error.code == .unsupported {
            #expect(owner.asked.isEmpty)
            return nil
        }
        let keyUse: Use = { presence in
            let signature = try await keystore.sign(
                Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
            #expect(key.publicKey.isValid(signature, for: Self.digest))
        }
        guard let secret = try await sealed(keystore, policy) else { return (keyUse, nil) }
        return (
            keyUse, { _ = try await keystore.unseal(secret, for: Self.prompt, authorizedBy: $0) }
        )
    }
}

/// A presence authority that ends reuse during the prompt, and then answers.
private struct LockedWhileAsked: PresenceAuthority {
    private let authority: any PresenceAuthority
    private let keystore: any Keystore

    init(_ authority: any PresenceAuthority, _ keystore: any Keystore) {
        self.authority = authority
        self.keystore = keystore
    }

    var broker: PresenceBroker? { authority.broker }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        keystore.endReuse()
        return try await authority.pin(request)
    }

    func notice(_ notice: PresenceNotice) async {
        keystore.endReuse()
        await authority.notice(notice)
    }
}

extension KeystoreContract {
    func revokesSecrets(_ keystore: any Keystore) async throws {
        let capabilities = try await keystore.capabilities()
        guard capabilities.sealsRevocably else { return try await refusesRevocation(keystore) }
        for requirement in [AccessPolicy.Requirement.none, guarded.requirement]
        where capabilities.sealing.contains(requirement) {
            let policy = try #require(AccessPolicy(requirement))
            let (bytes, others) = (SecretBytes.random(count: 32), SecretBytes.random(count: 32))
            let secret = try await sealRevocably(keystore, bytes, policy)
            let other = try await sealRevocably(keystore, others, policy)
            #expect(
                secret.isRevocable && secret.policy == policy && secret.backend == keystore.backend)
            #expect(try await unseal(keystore, secret) == bytes)
            try await keystore.revoking().revoke(secret)
            await Self.expect(.invalidated, of: "unseal a revoked secret, policy \(policy)") {
                _ = try await unseal(keystore, secret)
            }
            try await keystore.revoking().revoke(secret)
            #expect(try await unseal(keystore, other) == others, "another secret is unchanged")
            try await keystore.revoking().revoke(other)
            await Self.expect(.invalidated, of: "unseal the other revoked secret") {
                _ = try await unseal(keystore, other)
            }
        }
        guard let plain = try await sealed(keystore, freeSecret) else { return }
        await Self.expect(.unsupported, of: "revoke a secret that is not revocable") {
            try await keystore.revoking().revoke(plain)
        }
        _ = try await unseal(keystore, plain)
    }

    func revokesKeys(_ keystore: any Keystore) async throws {
        #expect(
            try await !makeKey(keystore, guarded).isRevocable, "an ordinary key is not revocable")
        guard try await keystore.capabilities().sealsRevocably else {
            return try await refusesRevocableKeys(keystore)
        }
        for policy in [AccessPolicy.none, guarded] {
            let (first, second) = (
                try await revocableKey(keystore, policy), try await revocableKey(keystore, policy)
            )
            for key in [first, second] {
                #expect(key.isRevocable && key.policy == policy)
                #expect(key.publicKey.isValid(try await sign(keystore, key), for: Self.digest))
            }
            let changed = try await keystore.changePIN(
                of: [first], secrets: [], for: Self.prompt, authorizedBy: person(.right, .new))
            #expect(changed.keys == [first], "the key is unchanged")
            if policy == guarded {
                await Self.expect(.wrongProof, of: "sign with the old PIN") {
                    _ = try await sign(keystore, first)
                }
            }
            #expect(
                first.publicKey.isValid(try await sign(keystore, first, .new), for: Self.digest))
            try await keystore.delete(first)
            await Self.expect(.invalidated, of: "sign with a revoked key, policy \(policy)") {
                _ = try await sign(keystore, first, .new)
            }
            try await keystore.delete(first)
            #expect(
                second.publicKey.isValid(try await sign(keystore, second), for: Self.digest),
                "another key is unchanged"
            )
            try await keystore.delete(second)
            await Self.expect(.invalidated, of: "sign with the other revoked key") {
                _ = try await sign(keystore, second)
            }
        }
    }

    private func revocableKey(_ keystore: any Keystore, _ policy: AccessPolicy) async throws
        -> HardwareKey
    {
        let recorded = Mutex<SealedSecret?>(nil)
        let key = try await keystore.revoking().createRevocableKey(
            KeyRequest(policy: policy, prompt: Self.prompt), authorizedBy: person(.right)
        ) { new in recorded.withLock { $0 = new } }
        #expect(
            recorded.withLock { $0 } == key.authorization,
            "the value passed to willCreate is the result")
        return key
    }

    private func refusesRevocableKeys(_ keystore: any Keystore) async throws {
        let presence = person(.right)
        await Self.expect(.unsupported, of: "create a revocable key") {
            _ = try await keystore.revoking().createRevocableKey(
                KeyRequest(policy: guarded, prompt: Self.prompt), authorizedBy: presence
            ) { _ in }
        }
        #expect(presence.asked.isEmpty)
    }

    private func refusesRevocation(_ keystore: any Keystore) async throws {
        let presence = person(.right)
        await Self.expect(.unsupported, of: "seal revocably") {
            _ = try await keystore.revoking().sealRevocably(
                .random(count: 32), policy: freeSecret, for: Self.prompt, authorizedBy: presence
            ) { _ in }
        }
        #expect(presence.asked.isEmpty)
        guard let plain = try await sealed(keystore, freeSecret) else { return }
        await Self.expect(.unsupported, of: "revoke a secret") {
            try await keystore.revoking().revoke(plain)
        }
    }

    private func sealRevocably(
        _ keystore: any Keystore, _ bytes: SecretBytes, _ policy: AccessPolicy
    ) async throws -> SealedSecret {
        let recorded = Mutex<SealedSecret?>(nil)
        let sealed = try await keystore.revoking().sealRevocably(
            bytes, policy: policy, for: Self.prompt, authorizedBy: person(.right)
        ) { new in recorded.withLock { $0 = new } }
        #expect(recorded.withLock { $0 } == sealed, "the value passed to willCreate is the result")
        return sealed
    }
}
