internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Refuses what this hardware can't enforce, before anybody is asked anything.
    func checkSupport(_ policy: AccessPolicy, _ operation: String) throws(KeystoreError) {
        guard policy.attemptLimit == nil else {
            throw .unsupported(
                operation, "a TPM can't have a limit of attempts for one key", recovery: "Leave it out.")
        }
    }

    /// Refuses what the hardware can't enforce with what there is for the policy.
    func checkSupport(
        _ policy: AccessPolicy, _ protection: PresenceProtection?, _ operation: String
    ) throws(KeystoreError) {
        guard policy.fits(protection) else {
            throw .unsupported(
                operation, "a TPM can't have a PIN of the key's own serve for some seconds",
                recovery: "Leave the time of reuse out, or use a policy with a finger only.")
        }
    }

    /// Asks for a PIN that will be set.
    ///
    /// The TPM is asked for the state of its lockout password only if the PIN is short. The answer is not authenticated: the
    /// rule keeps a user from a weak choice, and an interposer that forges the answer gains a PIN that is easier to guess.
    ///
    /// - Parameter isCounted: Whether the TPM's own guard counts wrong ones; a user's own PIN has another count,
    ///   which the lockout password does not reset.
    func newPIN(
        isCounted: Bool = true, _ prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        let pin = try await presence.givenPIN(PINRequest(purpose: .new, context: prompt), to: operation)
        guard isCounted, !allowsShortPINs, pin.characterCount < Self.minimumPINCharacters,
            (presence as? any SetPINAuthority)?.gaveSetPIN != true,
            try await !visit(operation, { (tpm) throws(TPMError) in try tpm.isLockoutPasswordSet() })
        else { return pin }
        throw KeystoreError(
            operation: operation, code: .invalidInput,
            reason:
                "the PIN has fewer than \(Self.minimumPINCharacters) characters, and the TPM's lockout password is empty: "
                + "every user of the TPM can reset the count of wrong PINs",
            recovery: "Choose a longer PIN, have an administrator set the lockout password "
                + "(\(TPMDiagnosis.lockoutPasswordCommand)), or pass --allow-short-pin.")
    }

    /// Asks for the PIN that is set, unless the TPM is locked: nobody should type into a locked door.
    func currentPIN(
        _ prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        let status = try await lockoutState(operation).status
        guard !status.isLockedOut else { throw .lockedOut(operation, status) }
        return try await currentPIN(status, prompt, operation, presence)
    }

    func currentPIN(
        _ status: PINStatus, _ prompt: PromptContext, _ operation: String, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        try await presence.givenPIN(
            PINRequest(purpose: .current, context: prompt, attemptsLeft: status.attemptsLeft), to: operation)
    }

    /// The authValue of a key whose policy has a PIN.
    func authValue(
        _ pin: PIN?, salt: [UInt8]?, boundTo binding: KeyBinding?, _ operation: String
    ) throws(KeystoreError) -> AuthValue {
        guard let pin, let salt else { return .empty }
        do {
            return try PINHardening.authValue(pin, salt: salt, boundTo: binding)
        } catch {
            throw KeystoreError(error, during: operation)
        }
    }
}

extension TPMKeystore {
    public func pinStatus(of key: HardwareKey) async throws(KeystoreError) -> PINStatus {
        let operation = "read the count of wrong PINs"
        return try await status(of: keyBlob(of: key, operation), operation)
    }

    public func pinStatus(of secret: SealedSecret) async throws(KeystoreError) -> PINStatus {
        let operation = "read the count of wrong PINs"
        guard !secret.isRevocable else {
            _ = try revocable(secret, operation)
            return try await pinStatus()
        }
        let blob = try blob(
            secret.blob, kind: .sealed, policy: secret.policy, backend: secret.backend, operation)
        return try await status(of: blob, operation)
    }

    private func status(of blob: TPMKeyBlob, _ operation: String) async throws(KeystoreError) -> PINStatus {
        guard let pin = blob.protection?.userPIN else { return try await pinStatus() }
        return try await status(of: pin, operation)
    }

    /// The count of a user's own PIN. One command.
    ///
    /// Everybody may read it by the owner's empty password. Where the owner has one, the count stays unknown.
    func status(
        of pin: PresenceProtection.UserPIN, _ operation: String
    ) async throws(KeystoreError) -> PINStatus {
        do {
            return try await device.visit { (tpm) throws(TPMError) in
                try UserPINCount(bytes: tpm.nvRead(pin.index, by: Hierarchy.owner)).status
            }
        } catch {
            switch error.responseCode {
            case .badAuth?, .authFail?: return PINStatus(attemptsLeft: nil, attemptLimit: nil, isLockedOut: false)
            // Gone, or made anew by another program: nothing was ever written to it.
            case .handle?, .nvUninitialized?: throw try await explainedAbsence(error, pin, operation)
            default: throw KeystoreError(error, during: operation)
            }
        }
    }

    func explained(
        _ error: TPMError, _ pin: PresenceProtection.UserPIN, _ operation: String
    ) async -> KeystoreError {
        do {
            let status = try await status(of: pin, operation)
            guard error.responseCode?.base == .authUnavailable else {
                return .wrongPIN(operation, status, underlying: error)
            }
            guard status.isLockedOut else { return try await explainedAbsence(error, pin, operation) }
            return .userPINLocked(operation, underlying: error)
        } catch {
            return error
        }
    }

    /// Has the TPM prove that the index is not there as it was made: the answer that says so carries no proof.
    private func explainedAbsence(
        _ error: TPMError, _ pin: PresenceProtection.UserPIN, _ operation: String
    ) async throws(KeystoreError) -> KeystoreError {
        guard let root = try await pinnedRoot(operation) else { return KeystoreError(error, during: operation) }
        let isThere = try await hasIndex(pin.index, under: root, operation)
        return isThere ? Self.forgedAbsence(operation, error) : Self.pinGone(operation, error)
    }

    private static func pinGone(_ operation: String, _ error: TPMError) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .invalidated,
            reason: "your PIN was removed from the TPM, and cannot be put back",
            recovery: "Use your finger where the key has that way; else delete the key and set it up again.",
            underlying: .init(error))
    }
}

extension KeystoreError {
    static func userPINLocked(_ operation: String, underlying: TPMError? = nil) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .lockedOut, reason: "too many PINs were wrong, and the TPM takes yours no more",
            recovery:
                "Use your finger: the count begins anew then. Without one, have an administrator reset it, as "
                + "‘man latchkey-presenced’ says.",
            attemptsLeft: 0, underlying: underlying.map(Underlying.init))
    }
}

/// What an index of the type `TPM_NT_PIN_FAIL` holds, `TPMS_NV_PIN_COUNTER_PARAMETERS` (TPM 2.0 Part 2 section 13.3).
struct UserPINCount: Hashable, Sendable {
    let failures: UInt32
    let limit: UInt32

    init(failures: UInt32, limit: UInt32) {
        self.failures = failures
        self.limit = limit
    }

    init(bytes: [UInt8]) throws(TPMError) {
        var reader = TPMReader(bytes)
        failures = try reader.read()
        limit = try reader.read()
        try reader.finish()
    }

    var bytes: [UInt8] {
        var writer = TPMWriter()
        writer.write(failures)
        writer.write(limit)
        return writer.bytes
    }

    var status: PINStatus {
        PINStatus(
            attemptsLeft: Int(limit) - Int(min(failures, limit)), attemptLimit: Int(limit),
            isLockedOut: failures >= limit)
    }
}

extension TPM {
    /// `TPMA_PERMANENT`, bit 2 (Part 2 section 8.6).
    static let lockoutAuthSet: UInt32 = 4

    /// Whether a password guards the reset of the count of wrong PINs. One command.
    func isLockoutPasswordSet() throws(TPMError) -> Bool {
        try properties(from: .permanent, count: 1)[.permanent, default: 0] & Self.lockoutAuthSet != 0
    }
}

/// The TPM's guard against guessing (TPM 2.0 Part 1 section 17.8).
struct LockoutState: Hashable, Sendable {
    let counter: UInt32
    let limit: UInt32
    /// Seconds of powered-on time until one failure is forgotten; 0 when failures don't lock.
    let interval: UInt32

    /// One command.
    init(_ tpm: TPM) throws(TPMError) {
        let properties = try tpm.properties(from: .lockoutCounter, count: 4)
        guard let counter = properties[.lockoutCounter], let limit = properties[.maxAuthFail],
            let interval = properties[.lockoutInterval]
        else {
            throw TPMError(.malformed, command: .getCapability, reason: "the TPM does not say whether it is locked")
        }
        self.counter = counter
        self.limit = limit
        self.interval = interval
    }

    var isLockedOut: Bool { counter >= limit && interval != 0 }

    /// Nil when failures don't lock.
    var attemptsLeft: Int? { interval == 0 ? nil : Int(limit) - Int(min(counter, limit)) }

    /// The TPM does not say how much of the interval has passed, so this is the latest time.
    var status: PINStatus {
        PINStatus(
            attemptsLeft: attemptsLeft, attemptLimit: interval == 0 ? nil : Int(limit), isLockedOut: isLockedOut,
            lockedOutUntil: isLockedOut ? Date(timeIntervalSinceNow: Double(interval)) : nil,
            recoverySeconds: interval == 0 ? nil : Int(interval))
    }
}
