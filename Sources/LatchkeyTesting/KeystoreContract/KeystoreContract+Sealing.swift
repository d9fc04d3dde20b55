internal import Latchkey
internal import Testing

extension KeystoreContract {
    func sealsWithoutPresence(_ keystore: any Keystore) async throws {
        guard device.canSeal, device.hasOpenKeys else { return try await refusesUnsupportedPolicies(keystore) }
        let nobody = person()
        let bytes = SecretBytes.random(count: 32)
        let secret = try await keystore.seal(bytes, policy: .none, for: Self.prompt, authorizedBy: nobody)
        #expect(try await keystore.unseal(secret, for: Self.prompt, authorizedBy: nobody) == bytes)
        #expect(nobody.requests.isEmpty)
        #expect(secret.backend == keystore.backend)
        #expect(secret.policy == .none)
        let isInTheClear = bytes.withUnsafeBytes { bytes in secret.blob.firstRange(of: Array(bytes)) != nil }
        #expect(!isInTheClear)
    }

    func sealsWithPIN(_ keystore: any Keystore) async throws {
        guard device.canSeal else {
            _ = try await sealed(keystore, guarded)
            return
        }
        let presence = person(.right, .right, .wrong)
        let bytes = SecretBytes.random(count: 32)
        let secret = try await keystore.seal(bytes, policy: guarded, for: Self.prompt, authorizedBy: presence)
        #expect(try await keystore.unseal(secret, for: Self.prompt, authorizedBy: presence) == bytes)
        await Self.expect(.wrongProof, of: "unseal with a wrong PIN") {
            _ = try await keystore.unseal(secret, for: Self.prompt, authorizedBy: presence)
        }
        #expect(presence.requests.map(\.purpose) == device.purposes(birth: 1, uses: 2))
        #expect(presence.asked == [Self.prompt, Self.prompt, Self.prompt])
        #expect(secret.assurance.presence == device.enforcedPresence)
    }

    func seals32BytesOnly(_ keystore: any Keystore) async throws {
        for policy in [AccessPolicy.none, guarded] {
            for count in [0, 31, 33, 128] {
                let presence = person(.right)
                await Self.expect(.invalidInput, of: "seal \(count) bytes under \(policy)") {
                    _ = try await keystore.seal(
                        .random(count: count), policy: policy, for: Self.prompt, authorizedBy: presence)
                }
                #expect(presence.asked.isEmpty)
            }
        }
    }

    func refusesUnsupportedPolicies(_ keystore: any Keystore) async throws {
        let supported = try await keystore.capabilities().requirements
        for requirement in AccessPolicy.Requirement.allCases where !supported.contains(requirement) {
            let policy = try #require(AccessPolicy(requirement))
            let presence = person(.right)
            await Self.expect(.unsupported, of: "create a key under \(policy)") {
                _ = try await keystore.createKey(
                    KeyRequest(policy: policy, prompt: Self.prompt), authorizedBy: presence)
            }
            await Self.expect(.unsupported, of: "seal under \(policy)") {
                _ = try await keystore.seal(
                    .random(count: 32), policy: policy, for: Self.prompt, authorizedBy: presence)
            }
            #expect(presence.asked.isEmpty)
        }
    }
}
