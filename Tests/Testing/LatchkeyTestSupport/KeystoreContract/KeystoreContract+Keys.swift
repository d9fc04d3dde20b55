internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyTesting
internal import Testing

extension KeystoreContract {
    func signsWithoutPresence(_ keystore: any Keystore) async throws {
        let user = person()
        guard device.hasOpenKeys else {
            await Self.expect(.unsupported, of: "create a key without user verification") {
                _ = try await create(keystore, KeyRequest(policy: .none, prompt: Self.prompt), user)
            }
            #expect(user.asked.isEmpty)
            return
        }
        let request = KeyRequest(policy: .none, label: "contract", prompt: Self.prompt)
        let key = try await create(keystore, request, user)
        let signature = try await keystore.sign(
            Self.digest, with: key, for: Self.prompt, authorizedBy: user)

        #expect(key.publicKey.isValid(signature, for: Self.digest))
        #expect(
            !key.publicKey.isValid(
                signature, for: MessageDigest(sha256: Array("another message".utf8))))
        #expect(user.requests.isEmpty)
        #expect(key.id == request.id)
        #expect(key.label == "contract")
        #expect(key.policy == .none)
        #expect(key.backend == keystore.backend)
        #expect(
            key.assurance
                == AssuranceLevel(root: try await keystore.capabilities().root, presence: .none))
    }

    func signsWithPIN(_ keystore: any Keystore) async throws {
        let presence = person(.right, .right, .right)
        let creation = PromptContext(reason: "make a key", container: "contract")
        let key = try await create(
            keystore, KeyRequest(policy: guarded, prompt: creation), presence)
        let attemptsLeft: Int? =
            if case .counted = device.guessing { try await keystore.pinStatus().attemptsLeft } else
            { nil }
        for _ in 0..<2 {
            let signature = try await keystore.sign(
                Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
            #expect(key.publicKey.isValid(signature, for: Self.digest))
        }

        #expect(key.assurance.presence == device.enforcedPresence)
        #expect(presence.asked == [creation, Self.prompt, Self.prompt])
        #expect(presence.requests.map(\.purpose) == device.purposes(creation: 1, uses: 2))
        #expect(presence.requests.dropFirst().allSatisfy { $0.attemptsLeft == attemptsLeft })
    }

    func refusesHiddenLabels(_ keystore: any Keystore) async throws {
        let user = person()
        for label in [
            "", "  ", "a\nb", "a\u{1B}[2Jb", "a\u{9B}b", "a\u{202E}b", "a\u{200B}b",
            String(repeating: "x", count: 257),
        ] {
            await Self.expect(.invalidInput, of: "create a key with \(label.debugDescription)") {
                _ = try await keystore.createKey(
                    KeyRequest(policy: guarded, label: label, prompt: Self.prompt),
                    authorizedBy: user)
            }
        }
        #expect(user.asked.isEmpty)
        let key = try await makeKey(keystore, free)
        await Self.expect(.invalidInput, of: "rename a key") {
            _ = try await keystore.rename(
                key, to: "a\u{202E}b", for: Self.prompt, authorizedBy: user)
        }
        #expect(user.asked.isEmpty)
    }

    func eachKeyIsNew(_ keystore: any Keystore) async throws {
        let first = try await makeKey(keystore, free)
        let second = try await makeKey(keystore, secondFree)
        #expect(first.id != second.id)
        #expect(first.publicKey != second.publicKey)
        let signature = try await sign(keystore, first)
        #expect(!second.publicKey.isValid(signature, for: Self.digest))
    }

    func anotherInstanceUsesTheKey(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        let storedKey = try JSONDecoder().decode(HardwareKey.self, from: JSONEncoder().encode(key))
        #expect(storedKey == key)

        let other = try await open()
        let signature = try await sign(other, storedKey)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
        guard let secret = try await sealed(keystore, freeSecret) else { return }
        let storedSecret = try JSONDecoder().decode(
            SealedSecret.self, from: JSONEncoder().encode(secret))
        #expect(try await unseal(other, storedSecret) == unseal(keystore, secret))
    }

    func signsConcurrently(_ keystore: any Keystore) async throws {
        let open = try await makeKey(keystore, free)
        let guarded = try await makeKey(keystore, guarded)
        try await withThrowingTaskGroup { group in
            for number in 0..<12 {
                group.addTask {
                    let key = number.isMultiple(of: 2) ? open : guarded
                    let digest = MessageDigest(sha256: Array("message \(number)".utf8))
                    let signature = try await keystore.sign(
                        digest, with: key, for: Self.prompt, authorizedBy: person(.right))
                    return key.publicKey.isValid(signature, for: digest)
                }
            }
            for try await isValid in group { #expect(isValid) }
        }
    }

    func deletesTwice(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        let kept = try await makeKey(keystore, free)
        guard device.canDelete else {
            await Self.expect(.unsupported, of: "delete") { try await keystore.delete(key) }
            let signature = try await sign(keystore, key)
            #expect(
                key.publicKey.isValid(signature, for: Self.digest),
                "a key that cannot be deleted still signs")
            return
        }
        try await keystore.delete(key)
        try await keystore.delete(key)
        if device.lendsKeys {
            let signature = try await sign(keystore, key)
            #expect(
                key.publicKey.isValid(signature, for: Self.digest),
                "an adopted key stays on the device")
        }
        let signature = try await sign(keystore, kept)
        #expect(kept.publicKey.isValid(signature, for: Self.digest))
    }

    func attests(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        let challenge = Data((0..<32).map { UInt8($0) })
        guard try await keystore.capabilities().canAttest else {
            await Self.expect(.unsupported, of: "attest") {
                _ = try await keystore.attest(key, challenge: challenge)
            }
            return
        }
        let attestation = try await keystore.attest(key, challenge: challenge)
        // A PIV attestation certificate has no challenge; it contains the key.
        let subject = attestation.format == KeyAttestation.piv ? key.publicKey.x : challenge
        #expect(attestation.statement.firstRange(of: subject) != nil)
        #expect(attestation.publicArea.firstRange(of: key.publicKey.x) != nil)
        for count in [7, 33] {
            await Self.expect(.invalidInput, of: "attest with a challenge of \(count) bytes") {
                _ = try await keystore.attest(key, challenge: Data(count: count))
            }
        }
    }
}

extension KeystoreContract {
    func sealsWithoutPresence(_ keystore: any Keystore) async throws {
        guard device.canSeal, device.sealsOpenly else {
            return try await refusesUnsupportedPolicies(keystore)
        }
        let user = person()
        let bytes = SecretBytes.random(count: 32)
        let secret = try await keystore.seal(
            bytes, policy: .none, for: Self.prompt, authorizedBy: user)
        #expect(try await keystore.unseal(secret, for: Self.prompt, authorizedBy: user) == bytes)
        #expect(user.requests.isEmpty)
        #expect(secret.backend == keystore.backend)
        #expect(secret.policy == .none)
        let isInTheClear = bytes.withUnsafeBytes { bytes in
            secret.blob.firstRange(of: Array(bytes)) != nil
        }
        #expect(!isInTheClear)
    }

    func sealsWithPIN(_ keystore: any Keystore) async throws {
        guard device.canSeal else {
            _ = try await sealed(keystore, guarded)
            return
        }
        let presence = person(.right, .right, .wrong)
        let bytes = SecretBytes.random(count: 32)
        let secret = try await keystore.seal(
            bytes, policy: guarded, for: Self.prompt, authorizedBy: presence)
        #expect(
            try await keystore.unseal(secret, for: Self.prompt, authorizedBy: presence) == bytes)
        await Self.expect(.wrongProof, of: "unseal with a wrong PIN") {
            _ = try await keystore.unseal(secret, for: Self.prompt, authorizedBy: presence)
        }
        #expect(presence.requests.map(\.purpose) == device.purposes(creation: 1, uses: 2))
        #expect(presence.asked == [Self.prompt, Self.prompt, Self.prompt])
        #expect(secret.assurance.presence == device.enforcedPresence)
    }

    func seals32BytesOnly(_ keystore: any Keystore) async throws {
        for policy in [AccessPolicy.none, guarded] {
            for count in [0, 31, 33, 128] {
                let presence = person(.right)
                await Self.expect(.invalidInput, of: "seal \(count) bytes under \(policy)") {
                    _ = try await keystore.seal(
                        .random(count: count), policy: policy, for: Self.prompt,
                        authorizedBy: presence)
                }
                #expect(presence.asked.isEmpty)
            }
        }
    }

    func refusesUnsupportedPolicies(_ keystore: any Keystore) async throws {
        let capabilities = try await keystore.capabilities()
        for requirement in AccessPolicy.Requirement.allCases {
            let policy = try #require(AccessPolicy(requirement))
            let presence = person(.right)
            if !capabilities.requirements.contains(requirement) {
                await Self.expect(.unsupported, of: "create a key under \(policy)") {
                    _ = try await keystore.createKey(
                        KeyRequest(policy: policy, prompt: Self.prompt), authorizedBy: presence)
                }
            }
            if !capabilities.sealing.contains(requirement) {
                await Self.expect(.unsupported, of: "seal under \(policy)") {
                    _ = try await keystore.seal(
                        .random(count: 32), policy: policy, for: Self.prompt, authorizedBy: presence
                    )
                }
            }
            #expect(presence.asked.isEmpty)
        }
    }
}
