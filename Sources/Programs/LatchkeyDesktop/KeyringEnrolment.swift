package import Latchkey

/// Gives the login keyring of gnome-keyring a secret that the TPM seals, and gives it back to the
/// login password. Both continue where an earlier run was killed. KWallet and users without a keyring
/// have only the record.
///
/// The order of a change: both copies of the secret are on the disk and were opened once, then the
/// keyring's secret is changed, tested, and only then the record is active. At each point either the
/// login password or the record's secret opens the keyring, and both are tried. Nothing deletes a
/// record before the login password has opened the keyring.
package struct KeyringEnrolment: Sendable {
    /// What a run found and did.
    package enum Outcome: Sendable, Equatable {
        case done
        /// A run that was interrupted is completed.
        case continued
        /// It was done before.
        case unchanged
    }

    /// The time for one request to the keyring's daemon.
    private static let limit: Duration = .seconds(10)

    let service: any SignInClient
    private let keyring: any Keyring

    package init(service: any SignInClient, keyring: any Keyring) {
        (self.service, self.keyring) = (service, keyring)
    }

    /// Makes the record's secret the keyring's.
    ///
    /// - Parameters:
    ///   - seen: The record when the user chose the proof.
    ///   - password: The login password, which the caller has checked.
    ///   - proof: The user's PIN, or that the service asks for a finger. It is used unless there is a
    ///     record that it and this password open.
    /// - Throws: `CommonError`: `wrongProof` if the login password does not open the keyring,
    ///   `wrongState` if neither it nor the secret does, `conflict` if the record is another one by
    ///   now, and the errors of both parts. The record stays, so that the next run continues.
    package func enable(
        _ seen: SignInStatus.Record?, password: SecretBytes, proof: SignInProof
    ) throws(CommonError) -> Outcome {
        try check(seen)
        if let seen { return try resume(seen, password: password, proof: proof) }
        // Before anything is stored: a keyring with another password cannot be changed.
        guard try keyring.unlock(password, until: deadline) == .done else {
            throw CommonError(
                code: .wrongProof, reason: "the login password does not open the keyring",
                recovery:
                    "Set the keyring's password to your login password in the program for passwords and keys, then try again."
            )
        }
        let secret = SecretBytes.random(count: KeyringKind.gnome.secretLength)
        let generation = try service.enrol(
            .gnome, secret: secret, password: password, proof: proof)
        try take(secret, from: password)
        try service.activate(generation: generation)
        return .done
    }

    /// Stores the key of a KWallet, which keeps its own password: the login password.
    ///
    /// - Parameter key: As ``KWallet/key(password:salt:)`` derives it from the login password.
    package func enableWallet(
        _ seen: SignInStatus.Record?, key: SecretBytes, password: SecretBytes, proof: SignInProof
    ) throws(CommonError) -> Outcome {
        try keep(seen, key, .kwallet, password, proof)
    }

    /// Lets the PIN or finger sign in without a keyring. A random secret, which opens nothing, is in
    /// place of a keyring's: the login password must open it once at a sign-in.
    package func enableWithoutKeyring(
        _ seen: SignInStatus.Record?, password: SecretBytes, proof: SignInProof
    ) throws(CommonError) -> Outcome {
        let kind = KeyringKind.withoutKeyring
        return try keep(seen, .random(count: kind.secretLength), kind, password, proof)
    }

    /// Another program can store a record with a secret that it knows, while the user types.
    private func check(_ seen: SignInStatus.Record?) throws(CommonError) {
        guard try service.status().record == seen else { throw Self.changedMeanwhile }
    }

    /// Stores a secret without a change of a keyring.
    private func keep(
        _ seen: SignInStatus.Record?, _ secret: SecretBytes, _ kind: KeyringKind,
        _ password: SecretBytes, _ proof: SignInProof
    ) throws(CommonError) -> Outcome {
        try check(seen)
        if let existing = seen {
            guard existing.kind == kind else { throw Self.otherKind(existing.kind) }
            let record = try follow(existing, password, proof)
            let stored = try service.release(password: password)
            guard kind == .withoutKeyring || stored == secret else { throw Self.otherKey }
            guard record.state == .pending || !record.isSealed || record != existing else {
                return .unchanged
            }
            return try complete(record, password: password, proof: proof)
        }
        let generation = try service.enrol(kind, secret: secret, password: password, proof: proof)
        try service.activate(generation: generation)
        return .done
    }

    private func opensRecord(_ password: SecretBytes) throws(CommonError) -> Bool {
        do throws(CommonError) {
            _ = try service.release(password: password)
            return true
        } catch {
            guard error.code == .wrongProof else { throw error }
            return false
        }
    }

    /// Adds a copy under the login password if it was changed without the record: the proof opens the
    /// secret.
    private func follow(
        _ record: SignInStatus.Record, _ password: SecretBytes, _ proof: SignInProof
    ) throws(CommonError) -> SignInStatus.Record {
        guard try !opensRecord(password) else { return record }
        _ = try service.renew(password: password, proof: proof)
        guard let followed = try service.status().record else { throw Self.changedMeanwhile }
        return followed
    }

    private func resume(_ existing: SignInStatus.Record, password: SecretBytes, proof: SignInProof)
        throws(CommonError) -> Outcome
    {
        try checkKind(existing)
        let record = try follow(existing, password, proof)
        let secret = try service.release(password: password)
        let text = KeyringText.hexadecimal(secret)
        if try keyring.unlock(text, until: deadline) != .done {
            // The run ended before the change.
            guard try keyring.unlock(password, until: deadline) == .done else {
                throw Self.bothWrong
            }
            try take(secret, from: password)
        } else if record.state == .active, record.isSealed, record == existing {
            return .unchanged
        }
        return try complete(record, password: password, proof: proof)
    }

    /// Seals the secret again if the PIN does not open it, for example after the PIN was made anew,
    /// and makes the record active.
    private func complete(_ record: SignInStatus.Record, password: SecretBytes, proof: SignInProof)
        throws(CommonError) -> Outcome
    {
        var generation = record.generation
        if !record.isSealed {
            generation = try service.renew(password: password, proof: proof)
        }
        if record.state == .pending { try service.activate(generation: generation) }
        return .continued
    }

    /// Gives the keyring back to the login password, and deletes the record.
    ///
    /// - Throws: As ``enable(_:password:proof:)``; `notFound` without a record.
    package func disable(password: SecretBytes) throws(CommonError) -> Outcome {
        guard let record = try service.status().record else {
            throw .notFound(
                "Latchkey does not sign you in", recovery: "There is nothing to disable.")
        }
        guard record.kind == .gnome else {
            // A wallet's own password is the login password already.
            try service.remove(generation: record.generation, password: password)
            return .done
        }
        let secret = KeyringText.hexadecimal(try service.release(password: password))
        let isGivenBack = try keyring.unlock(password, until: deadline) == .done
        if !isGivenBack {
            guard try keyring.change(from: secret, to: password, until: deadline) == .done else {
                throw Self.bothWrong
            }
            guard try keyring.unlock(password, until: deadline) == .done else {
                throw Self.untested
            }
        }
        try service.remove(generation: record.generation, password: password)
        return isGivenBack ? .continued : .done
    }

    /// The recovery text of the record's secret.
    package func recoveryText(password: SecretBytes) throws(CommonError) -> SecretBytes {
        if let record = try service.status().record { try checkKind(record) }
        return KeyringText.recovery(of: try service.release(password: password))
    }

    /// Gives the keyring to the login password with a recovery text, without the service.
    ///
    /// - Parameter password: The login password, which the caller has checked.
    package func recover(with typed: SecretBytes, password: SecretBytes) throws(CommonError) {
        guard let secret = KeyringText.secret(ofRecovery: typed) else {
            throw .invalidInput("the recovery text is incomplete, or a digit is wrong")
        }
        let text = KeyringText.hexadecimal(secret)
        guard try keyring.change(from: text, to: password, until: deadline) == .done else {
            throw CommonError(
                code: .wrongProof, reason: "the recovery text does not open the keyring",
                recovery: "Use the text that was printed last.")
        }
        guard try keyring.unlock(password, until: deadline) == .done else { throw Self.untested }
    }

    private var deadline: ContinuousClock.Instant { .now + Self.limit }

    /// Changes the keyring's secret, and tests the new one.
    private func take(_ secret: SecretBytes, from password: SecretBytes) throws(CommonError) {
        let text = KeyringText.hexadecimal(secret)
        guard try keyring.change(from: password, to: text, until: deadline) == .done else {
            throw Self.bothWrong
        }
        guard try keyring.unlock(text, until: deadline) == .done else { throw Self.untested }
    }

    private func checkKind(_ record: SignInStatus.Record) throws(CommonError) {
        guard record.kind == .gnome else { throw Self.otherKind(record.kind) }
    }

    /// - Parameter kind: Of the record.
    package static func otherKind(_ kind: KeyringKind) -> CommonError {
        let reason =
            switch kind {
            case .gnome: "Latchkey opens your GNOME keyring"
            case .kwallet: "Latchkey opens your KWallet, which keeps its own password"
            case .withoutKeyring: "Latchkey signs you in without a keyring"
            }
        return CommonError(
            code: .wrongState, reason: reason,
            recovery: "Disable it first, then enable the other kind.")
    }

    private static let bothWrong = CommonError(
        code: .wrongState,
        reason: "neither your login password nor the stored secret opens the keyring",
        recovery: "Use the recovery text. Nothing was deleted.")

    private static let otherKey = CommonError(
        code: .wrongState, reason: "the stored key of the wallet is that of another password",
        recovery:
            "First give the wallet your login password in KDE's settings. Then disable the sign-in, and enable it again."
    )

    private static let changedMeanwhile = CommonError.conflict(
        "another program changed the record of this user's keyring")

    private static let untested = CommonError(
        code: .failed, reason: "the keyring does not open with the secret that it accepted",
        recovery: "Run the command again. Nothing was deleted.")
}

/// A keyring whose secret can be tested and changed.
package protocol Keyring: Sendable {
    func unlock(_ secret: SecretBytes, until deadline: ContinuousClock.Instant) throws(CommonError)
        -> GnomeKeyring.Answer

    func change(
        from old: SecretBytes, to new: SecretBytes, until deadline: ContinuousClock.Instant
    ) throws(CommonError) -> GnomeKeyring.Answer
}

extension GnomeKeyring: Keyring {}
