internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import Testing

extension KeystoreContract {
    func signsWithoutPresence(_ keystore: any Keystore) async throws {
        let nobody = ScriptedPresence([])
        let request = KeyRequest(policy: .none, label: "contract", prompt: Self.prompt)
        let key = try await keystore.createKey(request, authorizedBy: nobody)
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
        let presence = ScriptedPresence(pins: "correct", "correct", "correct")
        let birth = PromptContext(reason: "make a key", container: "contract")
        let key = try await keystore.createKey(KeyRequest(policy: .pin, prompt: birth), authorizedBy: presence)
        let attemptsLeft = try await keystore.pinStatus().attemptsLeft
        for _ in 0..<2 {
            let signature = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
            #expect(key.publicKey.isValid(signature, for: Self.digest))
        }

        #expect(key.assurance.presence == .pin)
        #expect(presence.requests.map(\.purpose) == [.new, .current, .current])
        #expect(presence.requests.map(\.context) == [birth, Self.prompt, Self.prompt])
        #expect(presence.requests.dropFirst().allSatisfy { $0.attemptsLeft == attemptsLeft })
    }

    func eachKeyIsNew(_ keystore: any Keystore) async throws {
        let first = try await Self.makeKey(keystore, .none)
        let second = try await Self.makeKey(keystore, .none)
        #expect(first.id != second.id)
        #expect(first.publicKey != second.publicKey)
        let signature = try await Self.sign(keystore, first)
        #expect(!second.publicKey.isValid(signature, for: Self.digest))
    }

    func anotherInstanceUsesTheKey(_ keystore: any Keystore) async throws {
        let key = try await Self.makeKey(keystore, .pin, pin: "correct")
        let bytes = SecretBytes.random(count: 32)
        let secret = try await keystore.seal(
            bytes, policy: .none, for: Self.prompt, authorizedBy: ScriptedPresence([]))
        let storedKey = try JSONDecoder().decode(HardwareKey.self, from: JSONEncoder().encode(key))
        let storedSecret = try JSONDecoder().decode(SealedSecret.self, from: JSONEncoder().encode(secret))
        #expect(storedKey == key)

        let other = try await open()
        let signature = try await Self.sign(other, storedKey, pin: "correct")
        #expect(key.publicKey.isValid(signature, for: Self.digest))
        #expect(try await Self.unseal(other, storedSecret) == bytes)
    }

    func signsConcurrently(_ keystore: any Keystore) async throws {
        let free = try await Self.makeKey(keystore, .none)
        let guarded = try await Self.makeKey(keystore, .pin, pin: "correct")
        try await withThrowingTaskGroup { group in
            for number in 0..<12 {
                group.addTask {
                    let key = number.isMultiple(of: 2) ? free : guarded
                    let digest = MessageDigest(sha256: Array("message \(number)".utf8))
                    let signature = try await keystore.sign(
                        digest, with: key, for: Self.prompt, authorizedBy: ScriptedPresence(pins: "correct"))
                    return key.publicKey.isValid(signature, for: digest)
                }
            }
            for try await isValid in group { #expect(isValid) }
        }
    }

    func deletesTwice(_ keystore: any Keystore) async throws {
        let key = try await Self.makeKey(keystore, .pin, pin: "correct")
        let kept = try await Self.makeKey(keystore, .none)
        try await keystore.delete(key)
        try await keystore.delete(key)
        let signature = try await Self.sign(keystore, kept)
        #expect(kept.publicKey.isValid(signature, for: Self.digest))
    }

    func attests(_ keystore: any Keystore) async throws {
        let key = try await Self.makeKey(keystore, .pin, pin: "correct")
        let challenge = Data((0..<32).map { UInt8($0) })
        guard try await keystore.capabilities().canAttest else {
            await Self.expect(.unsupported, of: "attest") { _ = try await keystore.attest(key, challenge: challenge) }
            return
        }
        let attestation = try await keystore.attest(key, challenge: challenge)
        #expect(attestation.statement.firstRange(of: challenge) != nil)
        #expect(attestation.publicArea.firstRange(of: key.publicKey.x) != nil)
        for count in [7, 33] {
            await Self.expect(.invalidInput, of: "attest with a challenge of \(count) bytes") {
                _ = try await keystore.attest(key, challenge: Data(count: count))
            }
        }
    }
}
