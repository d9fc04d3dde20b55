package import FoundationEssentials
package import Latchkey

/// What an ``Authenticator`` does outside its own memory: with the user, the keystore, the records
/// and the clock. ``PasskeyEngine`` does it. Each effect throws the status of the answer.
package protocol PasskeyEffects: Sendable {
    var clock: PasskeyClock { get }

    /// The programs that have opened the device; nil if they are unknown.
    func openers() async -> DeviceOpeners?

    /// The state of the hardware and the store.
    func state() async -> PasskeyState

    /// The passkeys of a site, oldest first, and the number of all passkeys.
    func passkeys(of rpID: String) throws(CTAPStatus) -> (found: [Passkey], count: Int)

    /// Prompts the user, until the task is cancelled.
    ///
    /// - Parameter key: The key that a login uses, if there is only one.
    func choose(_ question: PasskeyQuestion, using key: HardwareKey?) async -> PasskeyChoice

    /// Which choice the user made when ``sign(_:authorizedBy:)`` threw `operationDenied`.
    func refusal(of question: PasskeyQuestion) async -> PasskeyChoice

    /// The user verification of one request: a PIN that the hardware accepted also answers its
    /// later prompts.
    func verification(for question: PasskeyQuestion) -> PresenceSession

    /// Creates the keys of a new passkey. `macKey` is nil if the hardware has no keys for PRF.
    func createKeys(
        withMACKey: Bool, for question: PasskeyQuestion, authorizedBy presence: PresenceSession
    ) async throws(CTAPStatus) -> (key: HardwareKey, macKey: SealedSecret?)

    /// Verifies the user and signs.
    func sign(
        _ use: PasskeyUse, authorizedBy presence: PresenceSession
    ) async throws(CTAPStatus) -> ECDSASignature

    /// Stores a new passkey durably, in place of those that it replaces.
    func add(_ passkey: Passkey) async throws(CTAPStatus)

    /// Deletes the keys of a registration that failed. Only a token holds parts of them.
    func discard(_ key: HardwareKey) async

    /// Attracts the user's attention.
    func wink() async
}

/// A use of a passkey with one prompt.
package struct PasskeyUse: Sendable {
    package let passkey: Passkey
    /// The PRF's inputs, 32 bytes each: none, one or two.
    package let salts: [Data]
    package let question: PasskeyQuestion
    /// The index of the passkey's account in ``PasskeyQuestion/accounts``.
    package let account: Int
    /// Computes the digest to sign from the PRF's outputs: the signed data contains them, encrypted
    /// for the client. Called once.
    package let digest: @Sendable ([SecretBytes]) throws(KeystoreError) -> MessageDigest
}

/// The state of the hardware and the store.
package struct PasskeyState: Hashable, Sendable {
    /// Whether the user can be verified now.
    package let canVerify: Bool
    /// The methods of this machine.
    package let methods: VerificationMethods
    /// The number of wrong proofs before the lockout; nil if unknown.
    package let attemptsLeft: Int?
    /// The number of stored passkeys.
    package let count: Int

    package init(
        canVerify: Bool, methods: VerificationMethods, attemptsLeft: Int?, count: Int
    ) {
        self.canVerify = canVerify
        self.methods = methods
        self.attemptsLeft = attemptsLeft
        self.count = count
    }
}

/// The methods of user verification (`uvModality`, FIDO Registry of Predefined Values section 3.1).
package struct VerificationMethods: OptionSet, Hashable, Sendable {
    package let rawValue: Int

    package init(rawValue: Int) { self.rawValue = rawValue }

    /// A fingerprint, with a reader of this machine.
    package static let fingerprint = VerificationMethods(rawValue: 0x02)
    /// A PIN, typed on this machine.
    package static let passcode = VerificationMethods(rawValue: 0x04)
}

/// The time, as durations since any fixed moment. Tests inject their own.
package struct PasskeyClock: Sendable {
    package let now: @Sendable () -> Duration
    /// Waits until that time. Throws if the task is cancelled.
    package let sleep: @Sendable (_ until: Duration) async throws -> Void

    package init(
        now: @escaping @Sendable () -> Duration,
        sleep: @escaping @Sendable (_ until: Duration) async throws -> Void
    ) {
        self.now = now
        self.sleep = sleep
    }

    /// The system's clock.
    package static let continuous: PasskeyClock = {
        let start = ContinuousClock.now
        return PasskeyClock(
            now: { ContinuousClock.now - start },
            sleep: { try await Task.sleep(until: start + $0, clock: .continuous) })
    }()
}
