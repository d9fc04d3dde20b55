public import Latchkey
internal import TPM2

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
