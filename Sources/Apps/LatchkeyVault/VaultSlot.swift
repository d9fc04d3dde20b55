internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// One slot for credentials. It implements all operations of the typed vaults.
///
/// Each change is one transaction: a crash leaves either the old or the new state.
struct VaultSlot<Credentials: Codable & Sendable>: Sendable {
    let key: String
    let space: VaultSpace?

    // MARK: Retrieving

    /// The vault in its present state.
    var vault: Vault<Credentials> {
        do throws(KeystoreError) {
            return try storedVault()
        } catch {
            return .locked(
                LockedBiometricsSecureVault(slot: self, record: nil, failure: named("open", error)))
        }
    }

    /// The vault, from its row, which is verified and decoded if its key is open.
    private func storedVault() throws(KeystoreError) -> Vault<Credentials> {
        let (space, row) = try spaceAndRow()
        guard let record = try space.record(of: row) else { return EmptyVault(slot: self).wrap() }
        guard record.protection != .device else {
            return KeychainSecureVault(
                slot: self, stored: StoredRecord(record), credentials: try read(in: nil)
            ).wrap()
        }
        guard let session = space.records.session(record.protection), session.isOpen else {
            return .locked(LockedBiometricsSecureVault(slot: self, record: record, failure: nil))
        }
        return .biometrics(
            BiometricsSecureVault(
                slot: self, stored: StoredRecord(record), session: session,
                credentials: try read(in: session)))
    }

    /// - Throws: `KeystoreError` with code `damaged` if another program replaced a value with
    ///   biometrics by one without.
    private func checkNotDowngraded() throws(KeystoreError) {
        let (space, row) = try spaceAndRow()
        guard try !space.records.isDowngraded(row.id, from: row.classes) else {
            throw named(
                "read", .damaged("another program replaced the value by one without biometrics"))
        }
    }

    /// - Throws: `KeystoreError` with code `conflict` if the vault is not empty.
    func checkEmpty() throws(KeystoreError) {
        let (space, row) = try spaceAndRow()
        guard try space.records.metadataNow(row.id) == nil else { throw changed() }
    }

    /// Whether biometrics are available now.
    var isUserVerificationAvailable: Bool { space?.isUserVerificationAvailable ?? false }

    /// Whether a value is stored with biometrics, readable or not; false if that is not known.
    var isStoredWithBiometrics: Bool {
        guard let (space, row) = try? spaceAndRow() else { return false }
        do throws(KeystoreError) {
            return try space.record(of: row).map { $0.protection != .device } ?? false
        } catch {
            // Another program replaced a value with biometrics.
            return error.code == .damaged
        }
    }

    func spaceAndRow() throws(KeystoreError) -> (space: VaultSpace, row: VaultRow) {
        guard let space else {
            throw KeystoreError(
                operation: "open the vault", code: .wrongState,
                reason: "this program has not set its vault space",
                recovery: "Call VaultSpace.bootstrap when the program starts.")
        }
        return (space, try VaultRow(key: key))
    }

    // MARK: Reading

    /// Reads the credentials, from memory and disk.
    ///
    /// - Parameter session: The session in which a vault with biometrics must be open; nil for a
    ///   vault without.
    func read(in session: ClassSession?) throws(KeystoreError) -> Credentials {
        let (space, row) = try spaceAndRow()
        guard let (record, payload) = try space.records.readNow(row.id, in: session) else {
            throw changed()
        }
        if session == nil {
            guard record.protection == .device else { throw changed() }
            try checkNotDowngraded()
        }
        return try decode(payload)
    }

    /// The credentials in a payload that was authenticated: if they cannot be decoded, the value is
    /// intact, and the program names another type than the one that stored it.
    func decode(_ payload: SecretBytes?) throws(KeystoreError) -> Credentials {
        guard let payload else { throw named("read", .damaged("the record has no value")) }
        do {
            return try payload.withUnsafeBytes {
                try JSONDecoder().decode(Envelope.self, from: Data($0))
            }.value
        } catch {
            throw named(
                "read",
                KeystoreError(
                    code: .invalidInput,
                    reason:
                        "the stored value is intact, and has another type than this program reads",
                    recovery:
                        "Use the program, in the version, that stored the value. Nothing was changed. A new version of a program must also read the type of the earlier one."
                ))
        }
    }

    func encode(_ credentials: Credentials) throws(KeystoreError) -> SecretBytes {
        do {
            var bytes = try JSONEncoder().encode(Envelope(value: credentials))
            defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
            return SecretBytes(bytes)
        } catch {
            throw named("store", .invalidInput("the credentials cannot be encoded as JSON"))
        }
    }

    /// Wraps the credentials, which may be any JSON value, in an object.
    private struct Envelope: Codable {
        let value: Credentials
    }

    // MARK: Errors

    /// The error if the stored record differs from the caller's vault.
    func changed() -> KeystoreError {
        named(
            "use",
            .conflict(
                "another copy of the vault or another program changed it in the meantime",
                recovery: "Retrieve the vault again."))
    }

    func wrongState(
        _ state: VaultErrorCode.State, for call: VaultErrorCode.Call
    ) -> KeystoreError {
        KeystoreError(
            operation: "use the vault ‘\(key)’", code: .wrongState,
            reason: "the vault is \(state.rawValue)",
            recovery: state == .locked
                ? "Unlock it first." : "Retrieve the vault again, and use the calls of its state.",
            underlying: VaultErrorCode(call, in: state).underlying)
    }

    func named(_ verb: String, _ error: KeystoreError) -> KeystoreError {
        error.during("\(verb) the vault ‘\(key)’")
    }
}

extension VaultSlot {
    /// Opens the space.
    func openSpace() async throws(KeystoreError) {
        try await spaceAndRow().space.open()
    }

    /// Checks that the stored record has the protection of the caller's vault.
    private func checkUnchanged(_ expected: Record) throws(KeystoreError) {
        let (space, row) = try spaceAndRow()
        guard try space.records.metadataNow(row.id)?.protection == expected.protection else {
            throw changed()
        }
    }

    /// Verifies the user and opens the vault.
    ///
    /// - Parameter expected: The record from which the caller's vault was created.
    func unlock(_ expected: Record) async throws(KeystoreError) -> BiometricsSecureVault<
        Credentials
    > {
        let (space, row) = try spaceAndRow()
        try checkUnchanged(expected)
        let presence = PresenceSession(space.presence)
        do throws(KeystoreError) {
            try await space.records.open(
                expected.protection, for: space.prompt("unlock ‘\(key)’"), authorizedBy: presence)
        } catch {
            // The key may be missing because the vault has changed its state.
            try checkUnchanged(expected)
            throw named("unlock", error)
        }
        do throws(KeystoreError) {
            try await space.open(as: presence)
            guard let session = space.records.session(expected.protection),
                let (record, payload) = try space.records.readNow(row.id, in: session)
            else { throw changed() }
            return BiometricsSecureVault(
                slot: self, stored: StoredRecord(record), session: session,
                credentials: try decode(payload))
        } catch {
            lock()
            throw named("unlock", error)
        }
    }

    /// Verifies the owner, during a lockout with a proof that lifts it. Notifies the user if the
    /// lockout remains.
    func reauthenticateOwner(_ expected: Record) async throws(KeystoreError) -> Bool {
        let space = try spaceAndRow().space
        try checkUnchanged(expected)
        do throws(KeystoreError) {
            try await space.records.prove(
                expected.protection,
                for: space.prompt("confirm that you are the owner of ‘\(key)’"),
                authorizedBy: space.presence)
            return true
        } catch {
            switch error.code {
            case .cancelled, .wrongProof: return false
            case .lockedOut:
                await space.presence.notice(
                    .lockedOut(
                        reason: error.reason, recovery: error.recovery, until: error.lockedOutUntil)
                )
                return false
            default: throw named("verify the owner of", error)
            }
        }
    }

    /// Discards the vault's key, in every copy, and every proof that would open it again without a
    /// prompt.
    func lock() {
        guard let (space, row) = try? spaceAndRow() else { return }
        space.records.keystore.endReuse()
        space.records.lock(prefix: row.classes.prefix)
    }
}

/// The last record that a vault value or a copy of it read or stored. The copies share this object.
final class StoredRecord: Sendable {
    private let last: Mutex<Record>

    init(_ record: Record) { last = Mutex(record) }

    var record: Record {
        get { last.withLock { $0 } }
        set { last.withLock { $0 = newValue } }
    }
}

/// The stored form of a vault: one record under the vault's name. A vault with biometrics also has
/// its own protection class, with a new key at each change of protection.
struct VaultRow: Sendable {
    static let kind = "vault"
    private static let longestKey = 64
    private static let idPrefix = "vault."

    let id: RecordID
    let classes: ClassFamily

    /// - Throws: ``KeystoreError`` with code `invalidInput` for an invalid key.
    init(key: String) throws(KeystoreError) {
        guard key.isName(maximumBytes: Self.longestKey) else {
            throw KeystoreError(
                operation: "open the vault", code: .invalidInput,
                reason: "‘\(key)’ is not a valid name",
                recovery:
                    "Give it a name of 1 to \(Self.longestKey) bytes with visible characters only, in Unicode normalization form C."
            )
        }
        id = RecordID(rawValue: Self.idPrefix + key)
        classes = ClassFamily("vault", of: key)
    }

    /// The key of the vault with this record.
    static func key(_ id: RecordID) -> String { String(id.rawValue.dropFirst(idPrefix.count)) }

    /// The change that stores the credentials.
    func put(_ payload: SecretBytes, in protection: ProtectionClass, ifGeneration generation: Int)
        -> RecordChange
    {
        .put(
            Record(id: id, kind: Self.kind, protection: protection), payload: payload,
            ifGeneration: generation)
    }
}
