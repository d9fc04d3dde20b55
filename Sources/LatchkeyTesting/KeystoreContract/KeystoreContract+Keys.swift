internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import Testing

extension KeystoreContract {
    func signsWithoutPresence(_ keystore: any Keystore) async throws {
        guard device.hasOpenKeys else { return try await refusesUnsupportedPolicies(keystore) }
        let nobody = person()
        let request = KeyRequest(policy: .none, label: "contract", prompt: Self.prompt)
        let key = try await create(keystore, request, nobody)
        let signature = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: nobody)

        #expect(key.publicKey.isValid(signature, for: Self.digest))
        #expect(!key.publicKey.isValid(signature, for: MessageDigest(sha256: Array("another message".utf8))))
        #expect(nobody.requests.isEmpty)
        #expect(key.id == request.id)
        #expect(key.label == "contract")
        #expect(key.policy == .none)
        #expect(key.backend == keystore.backend)
        #expect(key.assurance == AssuranceLevel(root: try await keystore.capabilities().root, presence: .none))
    }

    func signsWithPIN(_ keystore: any Keystore) async throws {
        let presence = person(.right, .right, .right)
        let birth = PromptContext(reason: "make a key", container: "contract")
        let key = try await create(keystore, KeyRequest(policy: guarded, prompt: birth), presence)
        let attemptsLeft = try await keystore.pinStatus().attemptsLeft
        for _ in 0..<2 {
            let signature = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
            #expect(key.publicKey.isValid(signature, for: Self.digest))
        }

        #expect(key.assurance.presence == device.enforcedPresence)
        #expect(presence.asked == [birth, Self.prompt, Self.prompt])
        #expect(presence.requests.map(\.purpose) == device.purposes(birth: 1, uses: 2))
        #expect(presence.requests.dropFirst().allSatisfy { $0.attemptsLeft == attemptsLeft })
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
        guard let secret = try await sealed(keystore, free) else { return }
        let storedSecret = try JSONDecoder().decode(SealedSecret.self, from: JSONEncoder().encode(secret))
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
            #expect(key.publicKey.isValid(signature, for: Self.digest), "what can't be deleted still signs")
            return
        }
        try await keystore.delete(key)
        try await keystore.delete(key)
        let signature = try await sign(keystore, kept)
        #expect(kept.publicKey.isValid(signature, for: Self.digest))
    }

    func attests(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        let challenge = Data((0..<32).map { UInt8($0) })
        guard try await keystore.capabilities().canAttest else {
            await Self.expect(.unsupported, of: "attest") { _ = try await keystore.attest(key, challenge: challenge) }
            return
        }
        let attestation = try await keystore.attest(key, challenge: challenge)
        // A certificate is made without knowing the challenge; it holds the key instead.
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
