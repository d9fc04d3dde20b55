import FoundationEssentials
import Latchkey
import LatchkeyDesktop
import LatchkeyPlatform
import LatchkeyTPM
import Logging

/// The records of users, for ``SignInService``. The service never replaces the last copy of a
/// secret: it only adds copies, and removes those that a sign-in has shown to be unnecessary.
extension SignInService {
    /// PAM accepted the user, who typed this text. If it is the account's password, and was given with
    /// the PIN under which the record is sealed, the PIN is the user's own and may sign in. A text that
    /// was not checked only opens the record.
    func learned(
        _ password: SecretBytes, isChecked: Bool, of user: UInt32, named name: String,
        by peer: PeerCredentials
    ) async -> SecretBytes {
        do throws(CommonError) {
            let opened = try await stored { (records) throws(CommonError) in
                try Self.prove(records, user, name, password, isChecked: isChecked)
            }
            guard let (secret, record) = opened else { return .line("none") }
            if isChecked { await allow(user, sealedIn: record) }
            guard record.kind != .withoutKeyring else { return .line("none") }
            return Self.line(secret, record.kind)
        } catch {
            return failed(error, user, peer)
        }
    }

    /// Opens a record with the account's password, and keeps only the copy that it opened, with the
    /// sealed one if that belongs to it. If it opens none, the password was changed without them, and
    /// they are marked.
    private static func prove(
        _ records: SignInRecordStore, _ user: UInt32, _ name: String, _ password: SecretBytes,
        isChecked: Bool
    ) throws(CommonError) -> (secret: SecretBytes, record: SignInRecord)? {
        guard var record = try records.read(user: user), record.name == name else { return nil }
        guard let (secret, index) = try record.open(password: password) else {
            if isChecked { try markStale(record, in: records) }
            return nil
        }
        guard isChecked else { return (secret, record) }
        var proven = record
        proven.keepOnly(index)
        if proven != record { record = try records.write(proven) }
        return (secret, record)
    }

    private static func markStale(_ record: SignInRecord, in records: SignInRecordStore)
        throws(CommonError)
    {
        guard record.wraps.contains(where: { !$0.isStale }) else { return }
        var record = record
        record.markStale()
        _ = try records.write(record)
    }

    /// A PIN that was set after the record was sealed is not allowed: any program can remove the
    /// index of a PIN and set a first one.
    private func allow(_ user: UInt32, sealedIn record: SignInRecord) async {
        guard let sealed = record.sealed,
            let opensWithPIN = authority.opensWithPIN(Data(sealed), of: user),
            !SignInPermission.allows(
                authority.signIn(of: user, named: record.name), opensWithPIN: opensWithPIN)
        else { return }
        do throws(KeystoreError) {
            guard
                try await authority.allowSignIn(
                    of: user, named: record.name, sealedIn: Data(sealed))
            else { return }
            log.notice("the sign-in is allowed", metadata: ["uid": "\(user)"])
        } catch {
            log.error(
                "the sign-in was not allowed",
                metadata: ["uid": "\(user)", "reason": "\(error.reason)"])
        }
    }

    /// PAM changed the password. The old copy stays until a sign-in opens the new one.
    ///
    /// - Returns: `done`, `none` without a record, or `failed` if there is no copy under the new
    ///   password.
    func changed(
        from old: SecretBytes, to new: SecretBytes, of user: UInt32, named name: String,
        by peer: PeerCredentials
    ) async -> SecretBytes {
        do throws(CommonError) {
            return try await stored { (records) throws(CommonError) in
                guard var record = try records.read(user: user), record.name == name else {
                    return .line("none")
                }
                guard let (secret, index) = try record.open(password: old) else {
                    try Self.markStale(record, in: records)
                    return .line("failed")
                }
                record.keepOnly(index)
                record.add(
                    try PasswordWrap(secret, password: new, binding: record.nextBinding),
                    isOfSeal: record.sealed != nil)
                _ = try records.write(record)
                return .line("done")
            }
        } catch {
            _ = failed(error, user, peer)
            return .line("failed")
        }
    }

    func status(of user: UInt32, by peer: PeerCredentials) async -> SecretBytes {
        do throws(CommonError) {
            let record = try await record(of: user).flatMap { Self.isOwn($0) ? $0 : nil }
            let hasPIN = try await authority.pinIndex(of: user) != nil
            let name = Account.name(of: user) ?? ""
            let opensWithPIN = record?.provableSeal.flatMap {
                authority.opensWithPIN(Data($0), of: user)
            }
            let isAllowed = SignInPermission.allows(
                authority.signIn(of: user, named: name), opensWithPIN: opensWithPIN != false)
            let wrap =
                switch record?.wraps.first?.isStale {
                case nil: "absent"
                case true?: "stale"
                case false?: "fresh"
                }
            let sealed = opensWithPIN.map { $0 ? "sealed" : "finger" } ?? "absent"
            let about =
                record.map {
                    "\($0.state.rawValue) \($0.kind) \($0.generation) "
                        + "\(sealed) \(wrap)"
                } ?? "none - 0 - -"
            return .line(
                "status", about, hasPIN ? "set" : "unset", isAllowed ? "allowed" : "unproven")
        } catch {
            return failed(error, user, peer)
        }
    }

    /// Stores a new record: sealed under the present PIN, which the TPM checks, or after a finger for
    /// fingers alone, and encrypted under the login password. Opens both once.
    func enrol(
        _ kind: String, _ secret: SecretBytes, _ password: SecretBytes, _ proof: SignInProof,
        for user: UInt32, by peer: PeerCredentials
    ) async -> SecretBytes {
        guard let kind = KeyringKind(name: kind) else { return .line("error", "kind") }
        guard secret.count == kind.secretLength, let name = Account.name(of: user) else {
            return .line("error", "invalid")
        }
        do throws(CommonError) {
            let existing = try await stored { (records) throws(CommonError) in
                try records.read(user: user)
            }
            guard existing == nil else {
                return .line("error", existing?.name == name ? "exists" : "account")
            }
        } catch { return failed(error, user, peer) }
        let sealed: Data
        do throws(KeystoreError) {
            sealed = try await authority.sealForSignIn(secret, with: proof.pin, of: user)
        } catch { return refused(error, user, peer) }
        do throws(CommonError) {
            let record = try await stored { (records) throws(CommonError) in
                var record = SignInRecord(user: user, name: name, kind: kind)
                record.add(
                    try PasswordWrap(secret, password: password, binding: record.nextBinding))
                record.seal(Array(sealed), with: 0)
                let written = try records.write(record)
                guard try written.open(password: password)?.secret == secret else {
                    try records.remove(user: user, generation: written.generation)
                    throw .damaged("the stored copy does not open")
                }
                return written
            }
            log.notice("a keyring was enrolled", metadata: Self.about(user, peer))
            return .line("done", "\(record.generation)")
        } catch { return failed(error, user, peer) }
    }

    /// Completes the copies of the secret, which the password or the proof opens. It is always sealed
    /// again under this proof, for this password alone: neither may be the user's. No copy under a
    /// proven password is removed: PAM has not accepted this one.
    func renew(
        _ password: SecretBytes, _ proof: SignInProof, of user: UInt32, by peer: PeerCredentials
    ) async -> SecretBytes {
        typealias Found = (record: SignInRecord, opened: (secret: SecretBytes, index: Int)?)
        let found: Found?
        do throws(CommonError) {
            found = try await stored { (records) throws(CommonError) -> Found? in
                guard let record = try Self.own(records, user) else { return nil }
                return (record, try record.open(password: password))
            }
        } catch { return failed(error, user, peer) }
        guard let (record, opened) = found else { return .line("error", "absent") }
        let (secret, sealed): (SecretBytes, Data)
        do throws(KeystoreError) {
            var known = opened?.secret
            if known == nil, let sealed = record.sealed {
                known = try await authority.open(Data(sealed), with: proof.pin, of: user)
            }
            guard let known else { return .line("error", "password") }
            secret = known
            sealed = try await authority.sealForSignIn(secret, with: proof.pin, of: user)
        } catch { return refused(error, user, peer) }
        do throws(CommonError) {
            let written = try await stored { (records) throws(CommonError) in
                var record = record
                if opened == nil {
                    record.add(
                        try PasswordWrap(secret, password: password, binding: record.nextBinding))
                }
                record.seal(Array(sealed), with: opened?.index ?? 0)
                return try records.write(record)
            }
            return .line("done", "\(written.generation)")
        } catch { return failed(error, user, peer) }
    }

    func activate(_ generation: UInt64, of user: UInt32, by peer: PeerCredentials) async
        -> SecretBytes
    {
        do throws(CommonError) {
            return try await stored { (records) throws(CommonError) in
                guard var record = try Self.own(records, user) else {
                    return .line("error", "absent")
                }
                guard record.generation == generation else { return .line("error", "generation") }
                record.state = .active
                return .line("done", "\(try records.write(record).generation)")
            }
        } catch { return failed(error, user, peer) }
    }

    /// The secret, for a user who knows the login password.
    func release(_ password: SecretBytes, of user: UInt32, by peer: PeerCredentials) async
        -> SecretBytes
    {
        do throws(CommonError) {
            return try await stored { (records) throws(CommonError) in
                guard let record = try Self.own(records, user) else {
                    return .line("error", "absent")
                }
                guard let (secret, _) = try record.open(password: password) else {
                    return .line("error", "password")
                }
                return .line([
                    .word("secret"), .word(record.kind.description),
                    KeyringText.hexadecimal(secret),
                ])
            }
        } catch { return failed(error, user, peer) }
    }

    /// Ends the sign-in and deletes the record, in this order: a record without the permission
    /// allows nothing.
    ///
    /// - Parameters:
    ///   - generation: For root 0, to keep the record; see ``end(_:by:)``.
    ///   - password: nil for root, which can also delete a record that no password opens.
    func remove(
        _ generation: UInt64, _ password: SecretBytes?, of user: UInt32, by peer: PeerCredentials
    ) async -> SecretBytes {
        guard password != nil || peer.user == 0 else { return .line("error", "password") }
        if password == nil, generation == 0 { return await end(user, by: peer) }
        do throws(CommonError) {
            let refusal = try await stored { (records) throws(CommonError) -> SecretBytes? in
                guard let record = try Self.own(records, user) else {
                    return .line("error", "absent")
                }
                guard record.generation == generation else { return .line("error", "generation") }
                guard let password else { return nil }
                return try record.open(password: password) == nil
                    ? .line("error", "password") : nil
            }
            if let refusal { return refusal }
        } catch { return failed(error, user, peer) }
        do throws(KeystoreError) {
            try await authority.denySignIn(of: user)
        } catch { return refused(error, user, peer) }
        do throws(CommonError) {
            try await stored { (records) throws(CommonError) in
                try records.remove(user: user, generation: generation)
            }
            log.notice("a keyring's record was removed", metadata: Self.about(user, peer))
            return .line("done", "0")
        } catch { return failed(error, user, peer) }
    }

    /// Root ends the sign-in of a user. All copies stay, but let no PIN sign in. The record of an account
    /// that does not exist any more is deleted, and bytes that are no record.
    private func end(_ user: UInt32, by peer: PeerCredentials) async -> SecretBytes {
        do throws(KeystoreError) {
            try await authority.denySignIn(of: user)
        } catch { return refused(error, user, peer) }
        do throws(CommonError) {
            try await stored { (records) throws(CommonError) in
                let read: SignInRecord?
                do throws(CommonError) { read = try records.read(user: user) } catch {
                    switch error.code {
                    // The record stays for the version that stored it.
                    case .unsupported: return
                    case .damaged: return try records.removeDamaged(user: user)
                    default: throw error
                    }
                }
                guard var record = read else { return }
                guard Self.isOwn(record) else {
                    return try records.remove(user: user, generation: record.generation)
                }
                record.endSignIn()
                _ = try records.write(record)
            }
            log.notice("the sign-in of a user was ended", metadata: Self.about(user, peer))
            return .line("done", "0")
        } catch { return failed(error, user, peer) }
    }

    /// Whether a record is of the account that has its number now.
    private static func isOwn(_ record: SignInRecord) -> Bool {
        record.name == Account.name(of: record.user)
    }

    private static func own(_ records: SignInRecordStore, _ user: UInt32) throws(CommonError)
        -> SignInRecord?
    {
        try records.read(user: user).flatMap { isOwn($0) ? $0 : nil }
    }

    // MARK: Errors

    private func failed(_ error: CommonError, _ user: UInt32, _ peer: PeerCredentials)
        -> SecretBytes
    {
        log.error(
            "a request about a keyring failed",
            metadata: Self.about(user, peer, reason: error.reason))
        return .line("error", error.code == .conflict ? "generation" : "store")
    }

    private func refused(_ error: KeystoreError, _ user: UInt32, _ peer: PeerCredentials)
        -> SecretBytes
    {
        log.notice(
            "a request about a keyring was refused",
            metadata: Self.about(user, peer, reason: error.reason))
        return switch error.code {
        case .wrongProof, .lockedOut: Self.refusal(error)
        case .notFound: .line("error", "pin")
        default: .line("error", "tpm")
        }
    }
}
