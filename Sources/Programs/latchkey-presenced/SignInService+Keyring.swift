import FoundationEssentials
import Latchkey
import LatchkeyDesktop
import LatchkeyPlatform
import LatchkeyTPM
import Logging

/// The records of keyrings, for ``SignInService``. The service never replaces the last copy of a
/// secret: it only adds copies, and removes those that a sign-in has shown to be unnecessary.
extension SignInService {
    /// PAM accepted the password. If it opens the record, the record is the user's own, and the PIN
    /// under which it was sealed may sign in.
    func learned(_ password: SecretBytes, of user: UInt32, by peer: PeerCredentials) async
        -> SecretBytes
    {
        do throws(CommonError) {
            let opened = try await stored { (records) throws(CommonError) in
                try Self.open(records, user, password, marksStale: true)
            }
            guard let (secret, record) = opened else { return .line("none") }
            await allow(user, sealedIn: record)
            return ticket(secret, record.kind, for: user, peer, after: "handle")
        } catch {
            return failed(error, user, peer)
        }
    }

    /// Opens a record with an accepted password, and keeps only the copy that it opened.
    ///
    /// - Parameter marksStale: Whether copies that it does not open are marked: the password was
    ///   changed without them.
    private static func open(
        _ records: LoginRecordStore, _ user: UInt32, _ password: SecretBytes, marksStale: Bool
    ) throws(CommonError) -> (secret: SecretBytes, record: LoginRecord)? {
        guard var record = try records.read(user: user) else { return nil }
        guard let (secret, index) = try record.open(password: password) else {
            if marksStale, record.wraps.contains(where: { !$0.isStale }) {
                record.markStale()
                _ = try records.write(record)
            }
            return nil
        }
        if record.wraps.count > 1 || record.wraps[index].isStale {
            record.keepOnly(index)
            record = try records.write(record)
        }
        return (secret, record)
    }

    /// A PIN that was set after the record was sealed is not allowed: any program can remove the
    /// index of a PIN and set a first one.
    private func allow(_ user: UInt32, sealedIn record: LoginRecord) async {
        guard let sealed = record.sealed, authority.isCurrent(Data(sealed), of: user),
            authority.signIn(of: user)?.hasPIN != true
        else { return }
        do throws(KeystoreError) {
            try await authority.allowSignIn(of: user)
            log.notice("the sign-in with the PIN is allowed", metadata: ["uid": "\(user)"])
        } catch {
            log.error(
                "the sign-in was not allowed",
                metadata: ["uid": "\(user)", "reason": "\(error.reason)"])
        }
    }

    /// PAM changed the password. The old copy stays until a sign-in opens the new one.
    func changed(
        from old: SecretBytes, to new: SecretBytes, of user: UInt32, by peer: PeerCredentials
    ) async -> SecretBytes {
        do throws(CommonError) {
            return try await stored { (records) throws(CommonError) in
                guard var record = try records.read(user: user),
                    let (secret, index) = try record.open(password: old)
                else { return .line("none") }
                record.keepOnly(index)
                record.add(
                    try PasswordWrap(secret, password: new, binding: record.nextBinding))
                _ = try records.write(record)
                return .line("done")
            }
        } catch {
            return failed(error, user, peer)
        }
    }

    func status(of user: UInt32, by peer: PeerCredentials) async -> SecretBytes {
        do throws(CommonError) {
            let record = try await stored { (records) throws(CommonError) in
                try records.read(user: user)
            }
            let hasPIN = try await authority.pinIndex(of: user) != nil
            let isAllowed = authority.signIn(of: user)?.hasPIN == true
            let wrap =
                switch record?.wraps.first?.isStale {
                case nil: "absent"
                case true?: "stale"
                case false?: "fresh"
                }
            let isSealed = record?.sealed.map { authority.isCurrent(Data($0), of: user) }
            let about =
                record.map {
                    "\($0.state.rawValue) \($0.kind) \($0.generation) "
                        + "\(isSealed == true ? "sealed" : "absent") \(wrap)"
                } ?? "none - 0 - -"
            return .line(
                "status", about, hasPIN ? "set" : "unset", isAllowed ? "allowed" : "unproven")
        } catch {
            return failed(error, user, peer)
        }
    }

    /// Stores a new record: sealed under the present PIN, which the TPM checks, and encrypted under
    /// the login password. Opens both once.
    func enrol(
        _ kind: String, _ secret: SecretBytes, _ password: SecretBytes, _ pin: PIN,
        for user: UInt32, by peer: PeerCredentials
    ) async -> SecretBytes {
        guard let kind = KeyringKind(name: kind) else { return .line("error", "kind") }
        guard secret.count == kind.secretLength, let name = BusRequester.name(of: user) else {
            return .line("error", "invalid")
        }
        do throws(CommonError) {
            let existing = try await stored { (records) throws(CommonError) in
                try records.read(user: user)
            }
            guard existing == nil else { return .line("error", "exists") }
        } catch { return failed(error, user, peer) }
        let sealed: Data
        do throws(KeystoreError) {
            sealed = try await seal(secret, pin, of: user)
        } catch { return refused(error, user, peer) }
        do throws(CommonError) {
            let record = try await stored { (records) throws(CommonError) in
                var record = LoginRecord(user: user, name: name, kind: kind)
                record.sealed = Array(sealed)
                record.add(
                    try PasswordWrap(secret, password: password, binding: record.nextBinding))
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

    /// Seals the secret again under the PIN that is set now, for a user who knows it and the login
    /// password.
    func renew(
        _ password: SecretBytes, _ pin: PIN, of user: UInt32, by peer: PeerCredentials
    ) async -> SecretBytes {
        let found: (secret: SecretBytes, record: LoginRecord)?
        do throws(CommonError) {
            found = try await stored { (records) throws(CommonError) in
                try Self.open(records, user, password, marksStale: false)
            }
        } catch { return failed(error, user, peer) }
        guard let (secret, record) = found else { return .line("error", "password") }
        let sealed: Data
        do throws(KeystoreError) {
            sealed = try await seal(secret, pin, of: user)
        } catch { return refused(error, user, peer) }
        do throws(CommonError) {
            let written = try await stored { (records) throws(CommonError) in
                var record = record
                record.sealed = Array(sealed)
                return try records.write(record)
            }
            return .line("done", "\(written.generation)")
        } catch { return failed(error, user, peer) }
    }

    private func seal(_ secret: SecretBytes, _ pin: PIN, of user: UInt32)
        async throws(KeystoreError) -> Data
    {
        try await authority.checkPIN(pin, of: user)
        return try await authority.sealForSignIn(secret, of: user)
    }

    func activate(_ generation: UInt64, of user: UInt32, by peer: PeerCredentials) async
        -> SecretBytes
    {
        do throws(CommonError) {
            return try await stored { (records) throws(CommonError) in
                guard var record = try records.read(user: user) else {
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
                guard let record = try records.read(user: user) else {
                    return .line("error", "absent")
                }
                guard let (secret, _) = try record.open(password: password) else {
                    return .line("error", "password")
                }
                return .line(
                    "secret", record.kind.description, KeyringText.hexadecimal(secret))
            }
        } catch { return failed(error, user, peer) }
    }

    /// Deletes the record and ends the sign-in.
    ///
    /// - Parameter password: nil only for root.
    func remove(
        _ generation: UInt64, _ password: SecretBytes?, of user: UInt32, by peer: PeerCredentials
    ) async -> SecretBytes {
        guard password != nil || peer.user == 0 else { return .line("error", "password") }
        do throws(CommonError) {
            let refusal = try await stored { (records) throws(CommonError) -> SecretBytes? in
                guard let record = try records.read(user: user) else {
                    return .line("error", "absent")
                }
                guard record.generation == generation else { return .line("error", "generation") }
                if let password, try record.open(password: password) == nil {
                    return .line("error", "password")
                }
                try records.remove(user: user, generation: generation)
                return nil
            }
            if let refusal { return refusal }
            log.notice("a keyring's record was removed", metadata: Self.about(user, peer))
            return await permit(false, user, by: peer)
        } catch { return failed(error, user, peer) }
    }

    /// Allows or ends the sign-in. Only root allows it.
    func permit(_ isAllowed: Bool, _ user: UInt32, by peer: PeerCredentials) async -> SecretBytes {
        guard !isAllowed || peer.user == 0 else { return .line("error", "invalid") }
        do throws(KeystoreError) {
            if isAllowed {
                try await authority.allowSignIn(of: user)
            } else {
                try await authority.denySignIn(of: user)
            }
            log.notice(
                "the sign-in was \(isAllowed ? "allowed" : "ended")",
                metadata: Self.about(user, peer))
            return .line("done", "0")
        } catch { return refused(error, user, peer) }
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
