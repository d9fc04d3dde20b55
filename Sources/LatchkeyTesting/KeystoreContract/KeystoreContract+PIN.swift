internal import Latchkey
internal import Testing

extension KeystoreContract {
    func refusesWrongPIN(_ keystore: any Keystore) async throws {
        let key = try await Self.makeKey(keystore, .pin, pin: "correct")
        let before = try await keystore.pinStatus().attemptsLeft
        let presence = ScriptedPresence(pins: "incorrect", "correct")
        let error = await Self.expect(.wrongProof, of: "sign with a wrong PIN") {
            _ = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
        }
        #expect(presence.requests.count == 1, "a wrong PIN is not asked for again behind the caller's back")
        #expect(error?.attemptsLeft == before.map { $0 - 1 })
        #expect(try await keystore.pinStatus().attemptsLeft == before.map { $0 - 1 })

        let signature = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
        #expect(presence.requests.last?.attemptsLeft == before.map { $0 - 1 })
    }

    func locksOut(_ keystore: any Keystore) async throws {
        let free = try await Self.makeKey(keystore, .none)
        let guarded = try await Self.makeKey(keystore, .pin, pin: "correct")
        let limit = try #require(try await keystore.pinStatus().attemptsLeft, "the device does not tell its limit")
        for attempt in 1...limit {
            await Self.expect(.wrongProof, .lockedOut, of: "wrong PIN \(attempt) of \(limit)") {
                _ = try await Self.sign(keystore, guarded, pin: "incorrect")
            }
        }
        #expect(try await keystore.pinStatus().isLockedOut)

        let presence = ScriptedPresence(pins: "correct")
        await Self.expect(.lockedOut, of: "sign while locked out") {
            _ = try await keystore.sign(Self.digest, with: guarded, for: Self.prompt, authorizedBy: presence)
        }
        #expect(presence.requests.isEmpty, "nobody is asked for a PIN that the device won't look at")
        let signature = try await Self.sign(keystore, free)
        #expect(free.publicKey.isValid(signature, for: Self.digest), "a key without a PIN is not locked")
    }

    func declinedAtBirth(_ keystore: any Keystore) async throws {
        let presence = ScriptedPresence([.decline])
        await Self.expect(.cancelled, of: "create a key") {
            _ = try await keystore.createKey(KeyRequest(policy: .pin, prompt: Self.prompt), authorizedBy: presence)
        }
        #expect(presence.requests.count == 1)
        let sealing = ScriptedPresence([.decline])
        await Self.expect(.cancelled, of: "seal") {
            _ = try await keystore.seal(.random(count: 32), policy: .pin, for: Self.prompt, authorizedBy: sealing)
        }
        #expect(sealing.requests.count == 1)
    }

    func declinedAtUse(_ keystore: any Keystore) async throws {
        let key = try await Self.makeKey(keystore, .pin, pin: "correct")
        let before = try await keystore.pinStatus().attemptsLeft
        let presence = ScriptedPresence([.decline, .pin("correct")])
        await Self.expect(.cancelled, of: "sign") {
            _ = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
        }
        #expect(presence.requests.count == 1)
        #expect(try await keystore.pinStatus().attemptsLeft == before)
        let signature = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }

    func nobodyToAsk(_ keystore: any Keystore) async throws {
        await Self.expect(.unavailable, of: "create a key") {
            _ = try await keystore.createKey(
                KeyRequest(policy: .pin, prompt: Self.prompt), authorizedBy: NobodyPresent())
        }
        let key = try await Self.makeKey(keystore, .pin, pin: "correct")
        await Self.expect(.unavailable, of: "sign") {
            _ = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: NobodyPresent())
        }
    }

    func takesAnyScript(_ keystore: any Keystore) async throws {
        let pins = ["🔑🦊🐢🎈", "กขคง", "пароль", "١٢٣٤", "密码口令", "👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", "    "]
        for pin in pins {
            let key = try await Self.makeKey(keystore, .pin, pin: pin)
            let signature = try await Self.sign(keystore, key, pin: pin)
            #expect(key.publicKey.isValid(signature, for: Self.digest), "\(pin)")
        }
        let key = try await Self.makeKey(keystore, .pin, pin: "caf\u{E9}")
        let signature = try await Self.sign(keystore, key, pin: "cafe\u{301}")
        #expect(key.publicKey.isValid(signature, for: Self.digest), "composed and decomposed are one PIN")
    }

    func everyCharacterCounts(_ keystore: any Keystore) async throws {
        let long = String(repeating: "x", count: PIN.maximumBytes)
        let key = try await Self.makeKey(keystore, .pin, pin: long)
        let signature = try await Self.sign(keystore, key, pin: long)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
        await Self.expect(.wrongProof, of: "sign with the last character changed") {
            _ = try await Self.sign(keystore, key, pin: long.dropLast() + "y")
        }
        await Self.expect(.wrongProof, of: "sign with the last character missing") {
            _ = try await Self.sign(keystore, key, pin: String(long.dropLast()))
        }
    }
}
