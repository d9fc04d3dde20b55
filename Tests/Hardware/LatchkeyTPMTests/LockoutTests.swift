import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

/// The proofs that end a lockout: the TPM's lockout password for the PINs that the TPM counts, and
/// a finger for those that the presence broker counts.
@Suite(.softwareTPM)
struct LockoutTests {
    private static let bytes = SecretBytes.random(count: 32)

    @Test(arguments: [true, false])
    func `the lockout password ends a lockout, and is not on the wire`(isRevocable: Bool)
        async throws
    {
        let (wire, keystore, secret) = try await lockedOut(isRevocable: isRevocable)
        let password = try #require(try SoftwareTPM.current.lockoutPassword)
        wire.forget()
        let presence = ScriptedPresence(pins: password)
        #expect(
            try await keystore.liftLockout(of: secret, for: Scene.prompt, authorizedBy: presence))
        let request = try #require(presence.requests.first)
        #expect(presence.requests.count == 1 && request.purpose == .lockoutPassword)
        #expect(
            request.context
                == PromptContext(
                    reason:
                        "end the TPM's lockout; a wrong password disables this reset for 1000 seconds",
                    container: "tests"))
        #expect(wire.bytes.firstRange(of: Array(password.utf8)) == nil)
        let status = try await keystore.pinStatus(of: .secret(secret))
        #expect(!status.isLockedOut && status.attemptsLeft == status.attemptLimit)
        #expect(try await unseal(keystore, secret, "123456") == Self.bytes)
    }

    @Test func `after a wrong lockout password the TPM refuses the right one too`() async throws {
        let (_, keystore, secret) = try await lockedOut()
        let wrong = await lift(keystore, secret, ScriptedPresence(pins: "a wrong password"))
        #expect(
            wrong?.code == .wrongProof && wrong?.underlying?.rawCode == 0x98e, "TPM_RC_AUTH_FAIL")
        #expect(wrong?.reason == "the lockout password is wrong")
        #expect(
            wrong?.recovery.hasPrefix("The TPM accepts no lockout password for 1000 seconds.")
                == true)
        let right = try #require(try SoftwareTPM.current.lockoutPassword)
        let refused = await lift(keystore, secret, ScriptedPresence(pins: right))
        #expect(
            refused?.code == .lockedOut && refused?.underlying?.rawCode == 0x921, "TPM_RC_LOCKOUT")
        #expect(refused?.reason == "the TPM refuses its lockout password after a wrong one")
        #expect(try await keystore.pinStatus(of: .secret(secret)).isLockedOut)
    }

    @Test func `all reports of a lockout have the end that the first one had`() async throws {
        let anchors = MemoryTrustAnchors()
        let (_, keystore, secret) = try await lockedOut(anchors: anchors)
        let first = try #require(try await anchors.anchor("tpm/lockout"))
        let end = try await keystore.pinStatus().lockedOutUntil
        let seconds = first.reduce(0) { $0 << 8 | UInt64($1) }
        #expect(end == Date(timeIntervalSince1970: Double(seconds + 1000)))
        // As if the lockout had been seen 500 seconds earlier.
        let earlier = withUnsafeBytes(of: (seconds - 500).bigEndian) { Data($0) }
        try await anchors.replaceAnchor("tpm/lockout", with: earlier)
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await unseal(keystore, secret, "123456")
        }
        let earlierEnd = Date(timeIntervalSince1970: Double(seconds + 500))
        #expect(error?.code == .lockedOut && error?.lockedOutUntil == earlierEnd)
        #expect(try await keystore.diagnose().pinStatus.lockedOutUntil == earlierEnd)
        // A time that cannot be right is replaced: the machine was off, or its clock was wrong.
        for wrong in [seconds - 2000, seconds + 2000] {
            try await anchors.replaceAnchor(
                "tpm/lockout", with: withUnsafeBytes(of: wrong.bigEndian) { Data($0) })
            let end = try #require(try await keystore.pinStatus().lockedOutUntil)
            #expect((0...1).contains(end.timeIntervalSinceNow / 1000))
        }
    }

    @Test func `a declined prompt and a password that is too long send nothing`() async throws {
        let (wire, keystore, secret) = try await lockedOut()
        let long = String(repeating: "7", count: 33)
        for (step, code) in [
            (ScriptedPresence.Step.decline, CommonErrorCode.cancelled), (.pin(long), .wrongProof),
        ] {
            wire.forget()
            #expect(await lift(keystore, secret, ScriptedPresence([step]))?.code == code)
            #expect(wire.codes == [.getCapability, .getCapability, .getCapability])
        }
    }

    /// Any program can reset the count with the empty password. This call must not: a user of the
    /// app could then guess PINs without limit.
    @Test func `an empty lockout password lifts nothing`() async throws {
        let tpm = try await SoftwareTPM(hasLockoutPassword: false)
        let (wire, keystore, secret) = try await lockedOut(on: tpm)
        wire.forget()
        #expect(
            try await keystore.liftLockout(
                of: secret, for: Scene.prompt, authorizedBy: Scene.nobody) == false)
        #expect(Set(wire.codes) == [.getCapability])
        #expect(try await keystore.pinStatus(of: .secret(secret)).isLockedOut)
        await tpm.cutPower()
    }

    @Test func `the broker resets a user's locked PIN with a finger`() async throws {
        try await Scene.withBroker(.differs, .matches) { _, keystore, broker in
            let secret = try await lockedSecret(keystore, broker, .pin)
            let presence = ScriptedPresence([], broker: broker)
            #expect(
                await lift(keystore, secret, presence)?.reason
                    == "the reader did not recognize the finger")
            #expect(try await keystore.pinStatus(of: .secret(secret)).isLockedOut)
            #expect(
                try await keystore.liftLockout(
                    of: secret, for: Scene.prompt, authorizedBy: presence))
            #expect(presence.requests.isEmpty)
            #expect(
                broker.requests.last?.context
                    == PromptContext(reason: "unlock your PIN", container: "tests"))
            #expect(try await keystore.pinStatus(of: .secret(secret)).attemptsLeft == 10)
            let right = ScriptedPresence([.pin("123456")], broker: broker)
            _ = try await keystore.unseal(secret, for: Scene.prompt, authorizedBy: right)
        }
    }

    @Test func `without a broker, or without a finger, a user's PIN stays locked`() async throws {
        try await Scene.withBroker { _, keystore, broker in
            let secret = try await lockedSecret(keystore, broker, .pin)
            #expect(
                try await keystore.liftLockout(
                    of: secret, for: Scene.prompt, authorizedBy: Scene.nobody) == false)
            broker.fingers = .lockedOut(until: nil)
            let presence = ScriptedPresence([], broker: broker)
            #expect(
                try await keystore.liftLockout(
                    of: secret, for: Scene.prompt, authorizedBy: presence) == false)
            #expect(broker.requests.isEmpty)
        }
    }

    @Test func `the proof that is not locked needs no reset`() async throws {
        try await Scene.withBroker(.matches) { _, keystore, broker in
            let presence = ScriptedPresence([], broker: broker)
            let secret = try await lockedSecret(keystore, broker, .userPresence)
            #expect(
                try await keystore.liftLockout(
                    of: secret, for: Scene.prompt, authorizedBy: presence))
            #expect(broker.requests.isEmpty && presence.requests.isEmpty)
            _ = try await keystore.unseal(secret, for: Scene.prompt, authorizedBy: presence)
            broker.fingers = .lockedOut(until: nil)
            #expect(
                try await keystore.liftLockout(
                    of: secret, for: Scene.prompt, authorizedBy: presence))
            #expect(broker.requests.count == 1 && presence.requests.isEmpty, "the PIN is a proof")
            let finger = try await keystore.seal(
                Self.bytes, policy: .biometryAny, for: Scene.prompt, authorizedBy: presence)
            let owner = ScriptedPresence([.pin("123456")], broker: broker)
            #expect(
                try await keystore.liftLockout(of: finger, for: Scene.prompt, authorizedBy: owner)
                    == false)
            #expect(owner.requests.map(\.context.reason) == ["unlock your fingerprint"])
        }
    }

    // MARK: Helpers

    /// A secret under a PIN that the TPM counts, on a TPM that is locked out.
    private func lockedOut(
        on tpm: SoftwareTPM? = nil, isRevocable: Bool = false,
        anchors: MemoryTrustAnchors = MemoryTrustAnchors()
    ) async throws -> (Wire, TPMKeystore, SealedSecret) {
        let wire = Wire()
        let keystore = wire.keystore(try tpm ?? SoftwareTPM.current, anchors: anchors)
        let presence = ScriptedPresence(pins: "123456")
        let secret =
            isRevocable
            ? try await keystore.sealRevocably(
                Self.bytes, policy: .pin, for: Scene.prompt, authorizedBy: presence,
                willCreate: { _ in })
            : try await keystore.seal(
                Self.bytes, policy: .pin, for: Scene.prompt, authorizedBy: presence)
        for _ in 0..<(try #require(try await keystore.pinStatus().attemptsLeft)) {
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await unseal(keystore, secret, "000000")
            }
            #expect(error?.code == .wrongProof)
        }
        #expect(try await keystore.pinStatus(of: .secret(secret)).isLockedOut)
        return (wire, keystore, secret)
    }

    /// A secret under a user's PIN that is locked.
    private func lockedSecret(
        _ keystore: TPMKeystore, _ broker: InProcessBroker, _ policy: AccessPolicy
    ) async throws -> SealedSecret {
        let secret = try await keystore.seal(
            Self.bytes, policy: policy, for: Scene.prompt,
            authorizedBy: ScriptedPresence([.pin("123456")], broker: broker))
        for _ in 0..<10 {
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await keystore.unseal(
                    secret, for: Scene.prompt,
                    authorizedBy: ScriptedPresence(
                        [.pin("654321")], broker: broker, preferring: .pin))
            }
            #expect(error?.code == .wrongProof)
        }
        #expect(try await keystore.pinStatus(of: .secret(secret)).isLockedOut)
        return secret
    }

    private func unseal(
        _ keystore: TPMKeystore, _ secret: SealedSecret, _ pin: String
    ) async throws(KeystoreError) -> SecretBytes {
        try await keystore.unseal(
            secret, for: Scene.prompt, authorizedBy: ScriptedPresence(pins: pin))
    }

    private func lift(
        _ keystore: TPMKeystore, _ secret: SealedSecret, _ presence: ScriptedPresence
    ) async -> KeystoreError? {
        await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.liftLockout(
                of: secret, for: Scene.prompt, authorizedBy: presence)
        }
    }
}
