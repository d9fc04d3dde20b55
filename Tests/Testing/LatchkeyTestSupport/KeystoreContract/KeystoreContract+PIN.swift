internal import Latchkey
internal import LatchkeyTesting
internal import Testing

extension KeystoreContract {
    func refusesWrongPIN(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        let before = try await keystore.pinStatus().attemptsLeft
        let presence = person(.wrong, .right)
        let error = await Self.expect(.wrongProof, of: "sign with a wrong PIN") {
            _ = try await keystore.sign(
                Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
        }
        #expect(presence.asked.count == 1, "the keystore does not prompt again after a wrong PIN")
        #expect(error?.attemptsLeft == before.map { $0 - 1 })
        #expect(try await keystore.pinStatus().attemptsLeft == before.map { $0 - 1 })

        let signature = try await keystore.sign(
            Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
        #expect(presence.requests.last?.attemptsLeft == before.map { $0 - 1 })
    }

    func locksOut(_ keystore: any Keystore) async throws {
        let open = try await makeKey(keystore, free)
        let guarded = try await makeKey(keystore, guarded)
        guard let limit = try await attemptLimit(keystore) else {
            return try await reportsNoLimit(keystore, guarded)
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
            _ = try await keystore.sign(
                Self.digest, with: guarded, for: Self.prompt, authorizedBy: presence)
        }
        #expect(
            presence.asked.isEmpty == tellsBefore,
            "there is no prompt for a PIN that the device would reject")
        guard device.hasOpenKeys else { return }
        let signature = try await sign(keystore, open)
        #expect(
            open.publicKey.isValid(signature, for: Self.digest), "a key without a PIN is not locked"
        )
    }

    func liftsNoLockoutWithoutProof(_ keystore: any Keystore) async throws {
        guard let secret = try await sealed(keystore, guarded) else { return }
        let nobody = device.person([])
        #expect(try await keystore.liftLockout(of: secret, for: Self.prompt, authorizedBy: nobody))
        #expect(nobody.asked.isEmpty, "there is no prompt without a lockout")
        if case .atReader = device.pin { return }
        guard let limit = try await attemptLimit(keystore) else { return }
        for attempt in 1...limit {
            await Self.expect(.wrongProof, .lockedOut, of: "wrong PIN \(attempt) of \(limit)") {
                _ = try await unseal(keystore, secret, .wrong)
            }
        }
        guard try await keystore.pinStatus(of: .secret(secret)).isLockedOut else { return }
        do throws(KeystoreError) {
            let isLifted = try await keystore.liftLockout(
                of: secret, for: Self.prompt, authorizedBy: person(.declined))
            #expect(!isLifted)
        } catch {
            #expect(error.code == .cancelled, "\(error)")
        }
        #expect(try await keystore.pinStatus(of: .secret(secret)).isLockedOut)
    }

    /// The number of wrong PINs that lock the device, or nil if none do.
    private func attemptLimit(_ keystore: any Keystore) async throws -> Int? {
        switch device.guessing {
        case .counted:
            let limit: Int = try #require(
                try await keystore.pinStatus().attemptsLeft, "the device does not report its limit")
            return limit
        case .locks(let after), .locksSilently(let after): return after
        case .unlimited: return nil
        }
    }

    /// A device without protection against guessing must not report any.
    private func reportsNoLimit(_ keystore: any Keystore, _ key: HardwareKey) async throws {
        for attempt in 1...12 {
            let error = await Self.expect(.wrongProof, of: "wrong PIN \(attempt) without a limit") {
                _ = try await sign(keystore, key, .wrong)
            }
            #expect(error?.attemptsLeft == nil)
        }
        let status = try await keystore.pinStatus()
        #expect(status == PINStatus(attemptsLeft: nil, attemptLimit: nil, isLockedOut: false))
        let signature = try await sign(keystore, key)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }

    func declinedAtCreation(_ keystore: any Keystore) async throws {
        let presence = person(.declined)
        await Self.expect(.cancelled, of: "create a key") {
            _ = try await create(
                keystore, KeyRequest(policy: guarded, prompt: Self.prompt), presence)
        }
        #expect(presence.asked.count == 1)
        guard device.canSeal else { return }
        let sealing = person(.declined)
        await Self.expect(.cancelled, of: "seal") {
            _ = try await keystore.seal(
                .random(count: 32), policy: guarded, for: Self.prompt, authorizedBy: sealing)
        }
        #expect(sealing.asked.count == 1)
    }

    func declinedAtUse(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        let before = try await keystore.pinStatus().attemptsLeft
        let presence = person(.declined, .right)
        await Self.expect(.cancelled, of: "sign") {
            _ = try await keystore.sign(
                Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
        }
        #expect(presence.asked.count == 1)
        #expect(try await keystore.pinStatus().attemptsLeft == before)
        let signature = try await keystore.sign(
            Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }

    /// A device with a reader prompts itself.
    func reportsUnavailablePrompt(_ keystore: any Keystore) async throws {
        if case .atReader = device.pin { return }
        await Self.expect(.unavailable, of: "create a key") {
            _ = try await create(
                keystore, KeyRequest(policy: guarded, prompt: Self.prompt), NobodyPresent())
        }
        let key = try await makeKey(keystore, guarded)
        await Self.expect(.unavailable, of: "sign") {
            _ = try await keystore.sign(
                Self.digest, with: key, for: Self.prompt, authorizedBy: NobodyPresent())
        }
    }

    func takesAnyScript(_ keystore: any Keystore) async throws {
        let pins = ["🔑🦊🐢🎈", "กขคง", "пароль", "١٢٣٤", "密码口令", "👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", "    "]
        if case .atReader = device.pin { return }
        // A card may have too few slots for a key for each PIN.
        var known: HardwareKey?
        if case .ofDevice = device.pin { known = try await makeKey(keystore, guarded) }
        var last = Device.Proof.right
        for pin in pins {
            guard device.takes(pin) else {
                try await refusesToSet(pin, keystore, last, known)
                continue
            }
            let key = try await key(keystore, openedBy: pin, after: last, known)
            last = .pin(pin)
            let signature = try await sign(keystore, key, last)
            #expect(key.publicKey.isValid(signature, for: Self.digest), "\(pin)")
        }
        guard device.takes("caf\u{E9}s") else {
            return try await refusesToSet("caf\u{E9}s", keystore, last, known)
        }
        let key = try await key(keystore, openedBy: "caf\u{E9}s", after: last, known)
        let signature = try await sign(keystore, key, .pin("cafe\u{301}s"))
        #expect(
            key.publicKey.isValid(signature, for: Self.digest),
            "composed and decomposed forms are the same PIN")
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

    /// A guarded key with this PIN. If the device has one PIN, changes that PIN, and the key is
    /// `known` or a new key.
    private func key(
        _ keystore: any Keystore, openedBy pin: String, after last: Device.Proof,
        _ known: HardwareKey? = nil
    ) async throws -> HardwareKey {
        guard case .ofDevice = device.pin else {
            return try await makeKey(keystore, guarded, .pin(pin))
        }
        let key = if let known { known } else { try await makeKey(keystore, guarded, last) }
        return try await keystore.changePIN(
            of: [key], secrets: [], for: Self.prompt, authorizedBy: person(last, .pin(pin))
        ).keys[0]
    }

    /// Expects the error `invalidInput` for a PIN that the device does not accept, and that the old
    /// PIN still works.
    private func refusesToSet(
        _ pin: String, _ keystore: any Keystore, _ last: Device.Proof, _ known: HardwareKey?
    ) async throws {
        let key = if let known { known } else { try await makeKey(keystore, guarded, last) }
        await Self.expect(.invalidInput, of: "set the PIN ‘\(pin)’") {
            _ = try await keystore.changePIN(
                of: [key], secrets: [], for: Self.prompt, authorizedBy: person(last, .pin(pin)))
        }
        let signature = try await sign(keystore, key, last)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }
}

extension KeystoreContract {
    func changesPIN(_ keystore: any Keystore) async throws {
        if case .atReader = device.pin { return try await doesNotChangeTheReadersPIN(keystore) }
        let first = try await makeKey(keystore, guarded)
        let second = try await makeKey(keystore, guarded)
        let secret = try await sealed(keystore, guarded)

        let bytes: SecretBytes? = if let secret { try await unseal(keystore, secret) } else { nil }
        let presence = person(.right, .new)
        let changed = try await keystore.changePIN(
            of: [first, second], secrets: [secret].compactMap(\.self), for: Self.prompt,
            authorizedBy: presence)
        #expect(presence.requests.map(\.purpose) == [.current, .new])
        #expect(changed.keys.map(\.id) == [first.id, second.id])
        #expect(changed.keys.map(\.publicKey) == [first.publicKey, second.publicKey])
        #expect(changed.secrets.count == (secret == nil ? 0 : 1))

        for key in changed.keys {
            let signature = try await sign(keystore, key, .new)
            #expect(key.publicKey.isValid(signature, for: Self.digest))
        }
        for secret in changed.secrets {
            #expect(try await unseal(keystore, secret, .new) == bytes)
        }

        await Self.expect(.wrongProof, of: "sign with the old PIN") {
            _ = try await sign(keystore, changed.keys[0], .right)
        }
        for secret in changed.secrets {
            await Self.expect(.wrongProof, of: "unseal with the old PIN") {
                _ = try await unseal(keystore, secret, .right)
            }
        }
    }

    func changeNeedsOldPIN(_ keystore: any Keystore) async throws {
        if case .atReader = device.pin { return try await doesNotChangeTheReadersPIN(keystore) }
        let key = try await makeKey(keystore, guarded)
        await Self.expect(.wrongProof, of: "change the PIN") {
            _ = try await keystore.changePIN(
                of: [key], secrets: [], for: Self.prompt,
                authorizedBy: person(.wrong, .new))
        }
        let signature = try await sign(keystore, key)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }

    func declinedChange(_ keystore: any Keystore) async throws {
        if case .atReader = device.pin { return try await doesNotChangeTheReadersPIN(keystore) }
        let key = try await makeKey(keystore, guarded)
        for proofs: [Device.Proof] in [[.declined], [.right, .declined]] {
            let presence = device.person(proofs)
            await Self.expect(.cancelled, of: "change the PIN") {
                _ = try await keystore.changePIN(
                    of: [key], secrets: [], for: Self.prompt, authorizedBy: presence)
            }
            #expect(presence.requests.count == proofs.count)
        }
        let signature = try await sign(keystore, key)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }

    /// A PIN that only the reader takes cannot be changed by the program.
    private func doesNotChangeTheReadersPIN(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        await Self.expect(.unsupported, of: "change the PIN of a reader") {
            _ = try await keystore.changePIN(
                of: [key], secrets: [], for: Self.prompt, authorizedBy: person(.right, .new))
        }
        let signature = try await sign(keystore, key)
        #expect(key.publicKey.isValid(signature, for: Self.digest))
    }
}
