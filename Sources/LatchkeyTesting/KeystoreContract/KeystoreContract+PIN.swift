internal import Latchkey
internal import Testing

extension KeystoreContract {
    func refusesWrongPIN(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        let before = try await keystore.pinStatus().attemptsLeft
        let presence = person(.wrong, .right)
        let error = await Self.expect(.wrongProof, of: "sign with a wrong PIN") {
            _ = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
        }
        #expect(presence.asked.count == 1, "a wrong PIN is not asked for again behind the caller's back")
        #expect(error?.attemptsLeft == before.map { $0 - 1 })
        #expect(try await keystore.pinStatus().attemptsLeft == before.map { $0 - 1 })

        let signature = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
        #expect(presence.requests.last?.attemptsLeft == before.map { $0 - 1 })
    }

    func locksOut(_ keystore: any Keystore) async throws {
        let open = try await makeKey(keystore, free)
        let guarded = try await makeKey(keystore, guarded)
        let limit: Int
        switch device.guessing {
        case .counted:
            limit = try #require(try await keystore.pinStatus().attemptsLeft, "the device does not tell its limit")
        case .locks(let after), .locksSilently(let after): limit = after
        case .unlimited: return try await saysThatNothingLocks(keystore, guarded)
        }
        for attempt in 1...limit {
            await Self.expect(.wrongProof, .lockedOut, of: "wrong PIN \(attempt) of \(limit)") {
                _ = try await sign(keystore, guarded, .wrong)
            }
        }
        var tellsBefore = true
        if case .locksSilently = device.guessing { tellsBefore = false }
        #expect(try await keystore.pinStatus().isLockedOut == tellsBefore)

        let presence = person(.right)
        await Self.expect(.lockedOut, of: "sign while locked out") {
            _ = try await keystore.sign(Self.digest, with: guarded, for: Self.prompt, authorizedBy: presence)
        }
        #expect(presence.asked.isEmpty == tellsBefore, "nobody is asked for a PIN that the device won't look at")
        guard device.hasOpenKeys else { return }
        let signature = try await sign(keystore, open)
        #expect(open.publicKey.isValid(signature, for: Self.digest), "a key without a PIN is not locked")
    }

    /// A device without a guard must not look as if it had one.
    private func saysThatNothingLocks(_ keystore: any Keystore, _ key: HardwareKey) async throws {
        for attempt in 1...12 {
            let error = await Self.expect(.wrongProof, of: "wrong PIN \(attempt) where nothing counts") {
                _ = try await sign(keystore, key, .wrong)
            }
            #expect(error?.attemptsLeft == nil)
        }
        let status = try await keystore.pinStatus()
        #expect(status == PINStatus(attemptsLeft: nil, attemptLimit: nil, isLockedOut: false))
        let signature = try await sign(keystore, key)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }

    func declinedAtBirth(_ keystore: any Keystore) async throws {
        let presence = person(.declined)
        await Self.expect(.cancelled, of: "create a key") {
            _ = try await create(keystore, KeyRequest(policy: guarded, prompt: Self.prompt), presence)
        }
        #expect(presence.asked.count == 1)
        guard device.canSeal else { return }
        let sealing = person(.declined)
        await Self.expect(.cancelled, of: "seal") {
            _ = try await keystore.seal(.random(count: 32), policy: guarded, for: Self.prompt, authorizedBy: sealing)
        }
        #expect(sealing.asked.count == 1)
    }

    func declinedAtUse(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        let before = try await keystore.pinStatus().attemptsLeft
        let presence = person(.declined, .right)
        await Self.expect(.cancelled, of: "sign") {
            _ = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
        }
        #expect(presence.asked.count == 1)
        #expect(try await keystore.pinStatus().attemptsLeft == before)
        let signature = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }

    /// At a reader of its own the device asks, not the program.
    func nobodyToAsk(_ keystore: any Keystore) async throws {
        if case .atReader = device.pin { return }
        await Self.expect(.unavailable, of: "create a key") {
            _ = try await create(keystore, KeyRequest(policy: guarded, prompt: Self.prompt), NobodyPresent())
        }
        let key = try await makeKey(keystore, guarded)
        await Self.expect(.unavailable, of: "sign") {
            _ = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: NobodyPresent())
        }
    }

    func takesAnyScript(_ keystore: any Keystore) async throws {
        let pins = ["🔑🦊🐢🎈", "กขคง", "пароль", "١٢٣٤", "密码口令", "👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", "    "]
        if case .atReader = device.pin { return }
        var last = Device.Proof.right
        for pin in pins {
            guard device.pinBytes.contains(pin.utf8.count) else {
                try await refusesToSet(pin, keystore, last)
                continue
            }
            let key = try await key(keystore, openedBy: pin, after: last)
            last = .pin(pin)
            let signature = try await sign(keystore, key, last)
            #expect(key.publicKey.isValid(signature, for: Self.digest), "\(pin)")
        }
        let key = try await key(keystore, openedBy: "caf\u{E9}s", after: last)
        let signature = try await sign(keystore, key, .pin("cafe\u{301}s"))
        #expect(key.publicKey.isValid(signature, for: Self.digest), "composed and decomposed are one PIN")
    }

    func everyCharacterCounts(_ keystore: any Keystore) async throws {
        if case .atReader = device.pin { return }
        let long = String(repeating: "7", count: device.pinBytes.upperBound)
        let key = try await key(keystore, openedBy: long, after: .right)
        let signature = try await sign(keystore, key, .pin(long))
        #expect(key.publicKey.isValid(signature, for: Self.digest))
        await Self.expect(.wrongProof, of: "sign with the last character changed") {
            _ = try await sign(keystore, key, .pin(long.dropLast() + "8"))
        }
        await Self.expect(.wrongProof, of: "sign with the last character missing") {
            _ = try await sign(keystore, key, .pin(String(long.dropLast())))
        }
    }

    /// A guarded key that this very PIN opens: a new one, or one of a device that gets this PIN.
    private func key(
        _ keystore: any Keystore, openedBy pin: String, after last: Device.Proof
    ) async throws -> HardwareKey {
        guard case .ofDevice = device.pin else { return try await makeKey(keystore, guarded, .pin(pin)) }
        let key = try await makeKey(keystore, guarded, last)
        return try await keystore.changePIN(
            of: [key], secrets: [], for: Self.prompt, authorizedBy: person(last, .pin(pin))
        ).keys[0]
    }

    /// A PIN that is too long or short for the device is said to be that, and the old one stays.
    private func refusesToSet(_ pin: String, _ keystore: any Keystore, _ last: Device.Proof) async throws {
        let key = try await makeKey(keystore, guarded, last)
        await Self.expect(.invalidInput, of: "set a PIN of \(pin.utf8.count) bytes") {
            _ = try await keystore.changePIN(
                of: [key], secrets: [], for: Self.prompt, authorizedBy: person(last, .pin(pin)))
        }
        let signature = try await sign(keystore, key, last)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }
}
