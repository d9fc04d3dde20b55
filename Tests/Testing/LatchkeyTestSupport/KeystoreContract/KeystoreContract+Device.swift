internal import FoundationEssentials
package import Latchkey
package import LatchkeyTesting
internal import Testing

extension KeystoreContract {
    /// The properties in which devices may differ. The defaults are those of a TPM.
    package struct Device: Sendable {
        /// The scope of the PIN.
        package enum PINOwner: Sendable {
            /// Each key has a PIN, set at its creation.
            case perKey
            /// The device has one PIN, which is already set.
            case ofDevice(String)
            /// The device takes the proof at its PIN pad or sensor. The closure gives it one:
            /// `.pin` with ``Device/rightPIN`` is correct, `.pin` with another text is wrong, and
            /// `.decline` is a user who does not answer.
            case atReader(@Sendable (ScriptedPresence.Step) async -> Void)
        }

        /// The protection against guessing the PIN.
        package enum Guessing: Sendable {
            /// The device counts attempts and reports those left.
            case counted
            /// The device locks after this number of wrong PINs. A prompt has the attempts left
            /// only after a wrong PIN, if the device reports them.
            case locks(after: Int)
            /// The device locks after this number of wrong PINs, and reports the lock only at the
            /// next attempt.
            case locksSilently(after: Int)
            /// No protection.
            case unlimited
        }

        /// The scope of the PIN.
        package var pin: PINOwner
        /// The protection against guessing.
        package var guessing: Guessing
        /// The policy of guarded keys.
        package var guardedPolicy: AccessPolicy
        /// The permitted length of a PIN in bytes.
        package var pinBytes: ClosedRange<Int>
        /// Whether a PIN may only contain the digits 0 to 9.
        package var takesDigitsOnly: Bool
        /// The security officer's PIN, if creating keys requires it.
        package var officerPIN: String?
        /// Whether the device can delete keys.
        package var canDelete: Bool
        /// Whether the device proves that its keys require the PIN.
        package var provesPIN: Bool
        /// Whether the device has only one key for each policy.
        package var hasOneKeyPerPolicy: Bool
        /// Whether the keys are adopted, so that deleting a key leaves it on the device.
        package var lendsKeys: Bool
        /// Whether the device has signing keys with the policy `.none`.
        package var hasOpenKeys: Bool
        /// Whether the device seals with the policy `.none`.
        package var sealsOpenly: Bool
        /// Whether the device can seal.
        package var canSeal: Bool
        /// The presence broker, if the app has one.
        package var broker: PresenceBroker?

        /// Creates a device with the properties of a TPM by default.
        package init(
            pin: PINOwner = .perKey, guessing: Guessing = .counted,
            guardedPolicy: AccessPolicy = .pin,
            pinBytes: ClosedRange<Int> = PIN.minimumCharacters...PIN.maximumBytes,
            takesDigitsOnly: Bool = false,
            officerPIN: String? = nil,
            canDelete: Bool = true, lendsKeys: Bool = false, provesPIN: Bool = true,
            hasOneKeyPerPolicy: Bool = false, hasOpenKeys: Bool = true, sealsOpenly: Bool? = nil,
            canSeal: Bool = true,
            broker: PresenceBroker? = nil
        ) {
            self.pin = pin
            self.guessing = guessing
            self.guardedPolicy = guardedPolicy
            self.pinBytes = pinBytes
            self.takesDigitsOnly = takesDigitsOnly
            self.officerPIN = officerPIN
            self.canDelete = canDelete
            self.hasOneKeyPerPolicy = hasOneKeyPerPolicy
            self.lendsKeys = lendsKeys
            self.provesPIN = provesPIN
            self.hasOpenKeys = hasOpenKeys
            self.sealsOpenly = sealsOpenly ?? hasOpenKeys
            self.canSeal = canSeal
            self.broker = broker
        }

        /// The correct PIN at the start.
        package var rightPIN: String {
            guard case .ofDevice(let pin) = pin else { return "correct" }
            return pin
        }
    }
}

extension KeystoreContract.Device {
    /// A user's answer to a prompt.
    enum Proof: Sendable {
        /// The correct PIN.
        case right
        /// A wrong PIN with the same length.
        case wrong
        /// The new PIN of a PIN change.
        case new
        case pin(String)
        case declined
    }

    /// The character in which a PIN differs from the correct one.
    private enum Place {
        case first, last
    }

    /// A user of this device who gives these proofs.
    func person(_ proofs: [Proof]) -> ScriptedPresence {
        let steps = proofs.map { proof -> ScriptedPresence.Step in
            switch proof {
            case .right: .pin(rightPIN)
            case .wrong: .pin(otherPIN(.first))
            case .new: .pin(otherPIN(.last))
            case .pin(let text): .pin(text)
            case .declined: .decline
            }
        }
        guard case .atReader(let show) = pin else {
            return ScriptedPresence(steps, broker: broker, officerPIN: officerPIN)
        }
        return ScriptedPresence(steps, officerPIN: officerPIN, reader: show)
    }

    /// Whether the device accepts the text as a PIN.
    func takes(_ pin: String) -> Bool {
        pinBytes.contains(pin.utf8.count)
            && (!takesDigitsOnly
                || pin.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
    }

    /// The verification that the hardware proves to enforce for a guarded key.
    var enforcedPresence: AssuranceLevel.EnforcedPresence {
        !provesPIN ? .unknown : guardedPolicy.requirement == .pin ? .pin : .fingerOrPIN
    }

    /// The purposes of the expected PIN requests.
    func purposes(creation: Int, uses: Int) -> [PINRequest.Purpose] {
        switch pin {
        case .perKey:
            Array(repeating: .new, count: creation) + Array(repeating: .current, count: uses)
        case .ofDevice: Array(repeating: .current, count: creation + uses)
        case .atReader: []
        }
    }

    /// The correct PIN with another character at one end; digits stay digits, for tokens that only
    /// accept digits.
    private func otherPIN(_ place: Place) -> String {
        switch place {
        case .first: (rightPIN.hasPrefix("9") ? "8" : "9") + rightPIN.dropFirst()
        case .last: rightPIN.dropLast() + (rightPIN.hasSuffix("9") ? "8" : "9")
        }
    }
}

extension KeystoreContract {
    func damagedKey(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, free)
        for (damage, blob) in Self.damages(of: key.blob) {
            await Self.expect(.damaged, .wrongDevice, of: "sign, \(damage)") {
                _ = try await sign(keystore, key.replacing(blob: blob))
            }
        }
        let signature = try await sign(keystore, key)
        #expect(key.publicKey.isValid(signature, for: Self.digest), "the undamaged key still signs")
    }

    func damagedSecret(_ keystore: any Keystore) async throws {
        guard let secret = try await sealed(keystore, freeSecret) else { return }
        let bytes = try await unseal(keystore, secret)
        for (damage, blob) in Self.damages(of: secret.blob) {
            await Self.expect(.damaged, .wrongDevice, of: "unseal, \(damage)") {
                _ = try await unseal(keystore, secret.replacing(blob: blob))
            }
        }
        #expect(try await unseal(keystore, secret) == bytes, "the undamaged secret still opens")
    }

    /// An attacker who edits the stored policy must not remove the need for a PIN.
    func editedPolicy(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, guarded)
        let edited = HardwareKey(
            id: key.id, backend: key.backend, policy: .none, assurance: key.assurance,
            publicKey: key.publicKey,
            label: key.label, createdAt: key.createdAt, blob: key.blob)
        await Self.expect(
            .damaged, .wrongDevice, .wrongProof, of: "sign with the policy edited to none"
        ) {
            _ = try await sign(keystore, edited)
        }
        guard device.sealsOpenly, let secret = try await sealed(keystore, guarded) else { return }
        let lax = SealedSecret(
            backend: secret.backend, policy: .none, assurance: secret.assurance, blob: secret.blob)
        await Self.expect(
            .damaged, .wrongDevice, .wrongProof, of: "unseal with the policy edited to none"
        ) {
            _ = try await unseal(keystore, lax)
        }
    }

    func editedPublicKey(_ keystore: any Keystore) async throws {
        let key = try await makeKey(keystore, free)
        let stranger = try await makeKey(keystore, secondFree)
        let edited = HardwareKey(
            id: key.id, backend: key.backend, policy: key.policy, assurance: key.assurance,
            publicKey: stranger.publicKey, label: key.label, createdAt: key.createdAt,
            blob: key.blob)
        await Self.expect(.damaged, of: "sign with another key's public key") {
            _ = try await sign(keystore, edited)
        }
    }

    func otherDevice(_ keystore: any Keystore) async throws {
        let open = try await makeKey(keystore, free)
        let guarded = try await makeKey(keystore, guarded)
        let secret = try await sealed(keystore, freeSecret)
        try await openOther { other in
            await Self.expect(.wrongDevice, of: "sign on another device") {
                _ = try await sign(other, open)
            }
            await Self.expect(.wrongDevice, of: "sign with a PIN on another device") {
                _ = try await sign(other, guarded)
            }
            if let secret {
                await Self.expect(.wrongDevice, of: "unseal on another device") {
                    _ = try await unseal(other, secret)
                }
                #expect(
                    await other.owns(secret) == false,
                    "another device knows that it did not seal the secret")
            }
            await Self.expect(.wrongDevice, of: "change the PIN on another device") {
                _ = try await other.changePIN(
                    of: [guarded], secrets: [], for: Self.prompt,
                    authorizedBy: person(.right, .new))
            }
        }
        let signature = try await sign(keystore, guarded)
        #expect(
            guarded.publicKey.isValid(signature, for: Self.digest),
            "the key still works on its device")
        if let secret {
            #expect(
                await keystore.owns(secret) == true, "the device knows that it sealed the secret")
        }
    }

    /// Copies with one flipped bit, for every 7th bit (7 and 8 have no common factor, so all bit
    /// positions occur), copies cut at every 5th length including 0, and a copy with an extra byte.
    private static func damages(of blob: Data) -> [(String, Data)] {
        let bytes = Array(blob)
        let flips = stride(from: 0, to: bytes.count * 8, by: 7).map { bit in
            var flipped = bytes
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            return ("bit \(bit) of \(bytes.count * 8) flipped", Data(flipped))
        }
        let cuts = stride(from: 0, to: bytes.count, by: 5).map { count in
            ("cut to \(count) of \(bytes.count) bytes", Data(bytes.prefix(count)))
        }
        return flips + cuts + [("an extra byte", Data(bytes + [0]))]
    }
}
