internal import Latchkey
internal import Testing

/// Proofs that serve for some time, on devices that can have that.
extension KeystoreContract {
    /// One use of what the proof opens.
    private typealias Use = (any PresenceAuthority) async throws -> Void

    func reusesProof(_ keystore: any Keystore) async throws {
        guard let (key, secret) = try await reusables(keystore) else { return }
        let first = person(.right)
        try await key(first)
        #expect(first.asked.count <= 1)
        let second = person()
        try await key(second)
        #expect(second.asked.isEmpty, "the proof still serves")
        // Whoever asks more often than the policy says keeps it too.
        try await secret?(person(.right))
    }

    func endsReuse(_ keystore: any Keystore) async throws {
        guard let (key, secret) = try await reusables(keystore) else { return }
        for (use, what) in [(key, "a key"), (secret, "a secret")] {
            guard let use else { continue }
            try await use(person(.right))
            keystore.endReuse()
            try await expectQuestion(what, use) { $0 }
        }
    }

    func endsReuseMidway(_ keystore: any Keystore) async throws {
        guard let (key, secret) = try await reusables(keystore) else { return }
        for (use, what) in [(key, "a key"), (secret, "a secret")] {
            guard let use else { continue }
            keystore.endReuse()
            try await use(LockedWhileAsked(person(.right), keystore))
            try await expectQuestion(what, use) { $0 }
        }
    }

    func asksAnewWhereTold(_ keystore: any Keystore) async throws {
        guard let (key, secret) = try await reusables(keystore) else { return }
        for (use, what) in [(key, "a key"), (secret, "a secret")] {
            guard let use else { continue }
            try await use(person(.right))
            try await expectQuestion(what, use) { FreshPresence($0) }
            if case .atReader = device.pin { continue }
            try await use(person(.right))
            await Self.expect(.unavailable, of: "use \(what) for nobody") { try await use(NobodyPresent()) }
        }
    }

    /// Somebody who declines is asked, so nothing is done.
    private func expectQuestion(
        _ what: String, _ use: Use, of authority: (ScriptedPresence) -> any PresenceAuthority
    ) async throws {
        let unwilling = person(.declined)
        await Self.expect(.cancelled, of: "use \(what)") { try await use(authority(unwilling)) }
        #expect(unwilling.asked.count == 1, "\(what)")
    }

    /// The uses of a key, and of a secret where the device seals, that one proof opens for five minutes.
    ///
    /// - Returns: nil for a device that can't have such a policy, after it was seen that it says so and asks nobody.
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
            let signature = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
            #expect(key.publicKey.isValid(signature, for: Self.digest))
        }
        guard let secret = try await sealed(keystore, policy) else { return (keyUse, nil) }
        return (keyUse, { _ = try await keystore.unseal(secret, for: Self.prompt, authorizedBy: $0) })
    }
}

/// Somebody who locks everything while they are asked, and answers then.
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
