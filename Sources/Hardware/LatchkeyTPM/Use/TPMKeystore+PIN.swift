internal import FoundationEssentials
public import Latchkey
internal import TPM2

extension TPMKeystore {
    /// Rejects a policy that a TPM cannot enforce, before any prompt.
    func checkSupport(_ policy: AccessPolicy) throws(KeystoreError) {
        guard PresenceProtection.requirements.contains(policy.requirement) else {
            throw .unsupported(
                "a TPM does not enforce the policy ‘\(policy)’", recovery: "Use another policy.")
        }
        guard policy.attemptLimit == nil else {
            throw .unsupported(
                "a TPM has no attempt limit for a single key", recovery: "Omit the attempt limit.")
        }
    }

    /// Prompts for a new PIN. Prompts an interactive authority again for a PIN that the TPM's state
    /// makes too short.
    ///
    /// Reads the state of the TPM's lockout password only for a short PIN. The response is not
    /// authenticated: the rule prevents a weak choice by the user, and an attacker on the bus who
    /// forges the response gains a PIN that is easier to guess.
    ///
    /// - Parameter isCounted: Whether the TPM's dictionary-attack protection counts wrong PINs. The
    ///   user's PIN of the presence broker has its own count, which the lockout password does not
    ///   reset.
    func newPIN(
        isCounted: Bool = true, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        let mayRefuseShortPIN = isCounted && !allowsShortPINs
        var request = PINRequest(purpose: .new, context: prompt)
        request.hint =
            mayRefuseShortPIN
            ? "Use at least \(Self.minimumPINCharacters) characters "
                + "(\(PIN.minimumCharacters) if the TPM's lockout password is set)."
            : nil
        var pin = try await presence.givenPIN(request)
        guard mayRefuseShortPIN, pin.characterCount < Self.minimumPINCharacters,
            !pin.isExisting,
            try await !withTPM({ (tpm) throws(TPMError) in try tpm.isLockoutPasswordSet() })
        else { return pin }
        if presence.isInteractive {
            request.minimumCharacters = Self.minimumPINCharacters
            request.hint =
                "The TPM's lockout password is empty: use at least \(Self.minimumPINCharacters) characters."
            pin = try await presence.givenPIN(request)
            guard pin.characterCount < Self.minimumPINCharacters else { return pin }
        }
        throw KeystoreError(
            code: .invalidInput,
            reason:
                "the PIN has fewer than \(Self.minimumPINCharacters) characters, and the TPM's lockout password is empty: "
                + "every user of the TPM can reset the count of wrong PINs",
            recovery: Recovery(
                "Choose a longer PIN, or have an administrator set the lockout password: "
                    + "\(TPMDiagnosis.lockoutPasswordCommand). For a TPM other than the machine's, add -T and its TCTI.",
                .allowShortPIN))
    }

    /// Prompts for the current PIN, unless the TPM is locked out. Call ``checkHardware(of:before:)``
    /// or ``checkExisting(_:under:)`` first.
    func currentPIN(
        _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        let status = try await lockoutStatus()
        guard !status.isLockedOut else { throw .lockedOut(status) }
        return try await askForCurrentPIN(status, prompt, presence)
    }

    /// Prompts for the current PIN of the user, unless it is locked.
    func currentUserPIN(
        _ index: PresenceProtection.UserPIN, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        let status = try await userPINStatus(index)
        guard !status.isLockedOut else { throw .userPINLocked() }
        return try await askForCurrentPIN(status, prompt, presence)
    }

    func askForCurrentPIN(
        _ status: PINStatus, _ prompt: PromptContext, _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PIN {
        try await presence.givenPIN(
            PINRequest(purpose: .current, context: prompt, attemptsLeft: status.attemptsLeft))
    }
}

extension TPMKeystore {
    public func pinStatus(of subject: PINSubject) async throws(KeystoreError) -> PINStatus {
        do throws(KeystoreError) {
            return switch subject {
            case .hardware: try await lockoutStatus()
            case .key(let key): try await status(of: keyBlob(of: key).protection)
            case .secret(let secret): try await status(of: stored(secret).protection)
            }
        } catch { throw error.during("read the count of wrong PINs") }
    }

    /// The counter of the PIN of an object.
    func status(of protection: PresenceProtection) async throws(KeystoreError) -> PINStatus {
        guard let pin = protection.brokerPIN else { return try await lockoutStatus() }
        return try await userPINStatus(pin)
    }

    /// The state of the TPM's dictionary-attack protection. One command.
    ///
    /// - Parameter hasFailed: Whether the TPM has just counted a wrong PIN, so that a lockout begins
    ///   now.
    func lockoutStatus(hasFailed: Bool = false) async throws(KeystoreError) -> PINStatus {
        let state = try await withTPM { (tpm) throws(TPMError) in try LockoutState(tpm) }
        return await state.status(since: lockoutStart(state, isNow: hasFailed))
    }

    /// Reads the count of a user's PIN. One command.
    ///
    /// The owner's empty password authorizes the read. If the owner has a password, the count is
    /// unknown.
    func userPINStatus(
        _ pin: PresenceProtection.UserPIN
    ) async throws(KeystoreError) -> PINStatus {
        do {
            return try await device.run { (tpm) throws(TPMError) in
                try UserPINCount(unmarshalling: tpm.nvRead(pin.index, by: Hierarchy.owner)).status
            }
        } catch {
            switch error.responseCode {
            case .badAuth?, .authFail?:
                return PINStatus(attemptsLeft: nil, attemptLimit: nil, isLockedOut: false)
            // The index is gone, or another program defined it again and did not write it.
            case .handle?, .nvUninitialized?: throw try await explainAbsence(error, pin)
            default: throw KeystoreError(error)
            }
        }
    }

    /// Reads the count of wrong PINs of the user's PIN that the presence broker manages, also if no
    /// key needs it. Does not prompt.
    ///
    /// - Returns: nil without a broker, or if the user has no PIN.
    package func userPINStatus(
        through presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PINStatus? {
        guard let broker = presence.broker?.approvals,
            let stated = try await terms(of: broker, .pin)?.userPIN
        else { return nil }
        return try await userPINStatus(
            try KeystoreError.explaining { () throws(TPMError) in
                try PresenceProtection.UserPIN(stated)
            })
    }

    /// Explains a failed proof of a user's PIN.
    func explainUserPIN(
        _ error: TPMError, _ pin: PresenceProtection.UserPIN
    ) async -> KeystoreError {
        do {
            let status = try await userPINStatus(pin)
            guard error.responseCode?.base == .authUnavailable else {
                return try await isReplaced(pin.index)
                    ? explainAbsence(error, pin) : .wrongUserPIN(status, underlying: error)
            }
            guard status.isLockedOut else { return try await explainAbsence(error, pin) }
            return .userPINLocked(underlying: error)
        } catch {
            return error
        }
    }

    /// Whether another index has the handle: another program removed the user's. One command. The
    /// answer is not authenticated.
    private func isReplaced(_ index: NVIndex) async throws(KeystoreError) -> Bool {
        try await withTPM { (tpm) throws(TPMError) in
            try tpm.execute(NVReadPublic(index.handle)) != index
        }
    }

    /// Looks for the original index in an audited session: the error response is not authenticated.
    private func explainAbsence(
        _ error: TPMError, _ pin: PresenceProtection.UserPIN
    ) async throws(KeystoreError) -> KeystoreError {
        guard let root = try await pinnedRoot() else { return KeystoreError(error) }
        guard try await !hasIndex(pin.index, under: root) else {
            return Self.forgedAbsence(error)
        }
        return KeystoreError(
            code: .invalidated, reason: "your PIN was removed from the TPM and cannot be restored",
            recovery:
                "Use your fingerprint if the key permits it. Otherwise delete the key and create it again.",
            underlying: .init(error))
    }
}

extension KeystoreError {
    static func userPINLocked(underlying: TPMError? = nil) -> KeystoreError {
        KeystoreError(
            code: .lockedOut, reason: "the PIN is locked after too many wrong attempts",
            recovery: unlocking, attemptsLeft: 0, underlying: underlying.map(UnderlyingError.init))
    }

    /// The error of a wrong PIN that the presence broker counts: no time ends its lockout.
    static func wrongUserPIN(_ status: PINStatus, underlying: TPMError) -> KeystoreError {
        wrongPIN(status, underlying: underlying).with(
            recovery: status.isLockedOut
                ? unlocking : "Try again with the right PIN. \(forgetting)")
    }

    private static let unlocking = Recovery(
        "Use your fingerprint, which resets the count. Otherwise ask an administrator to reset it as described in "
            + "‘man latchkey-presenced’. \(forgetting)")

    /// The way to a new PIN. It cannot be a way around the person: the keys of the old PIN end.
    private static let forgetting =
        "If you forgot the PIN, an administrator can remove it: the keys that need it are lost, and the next new key sets a "
        + "new PIN (‘man latchkey-presenced’)."
}

/// The content of an index of the type `TPM_NT_PIN_FAIL`, `TPMS_NV_PIN_COUNTER_PARAMETERS` (TPM 2.0
/// Part 2 section 13.3).
struct UserPINCount: Hashable, Sendable {
    let failures: UInt32
    let limit: UInt32

    var status: PINStatus {
        PINStatus(
            attemptsLeft: Int(limit) - Int(min(failures, limit)), attemptLimit: Int(limit),
            isLockedOut: failures >= limit)
    }
}

extension UserPINCount: TPMMarshallable, TPMUnmarshallable {
    init(from reader: inout TPMReader) throws(TPMError) {
        failures = try reader.read()
        limit = try reader.read()
    }

    func marshal(into writer: inout TPMWriter) { writer.write(failures, limit) }
}
