internal import FoundationEssentials
internal import GRDB

/// The records under one name, for example of one app, account or profile. Containers are separate
/// from each other.
///
/// ``metadata(_:)`` and ``list(_:)`` need no hardware and verify nothing: use them to decide what
/// to show, not what to allow. ``read(_:for:authorizedBy:)`` verifies.
/// ``apply(_:for:authorizedBy:)`` is the only way to write: all changes or none.
public final class RecordContainer: Sendable {
    /// The maximum length of a payload in bytes.
    package static let maximumPayloadBytes = 1 << 20

    /// The container's name.
    package let name: String
    /// The keystore that protects the records.
    package let keystore: any Keystore
    package let store: RecordStore
    let keyring: RecordKeyring
    /// A cache of decoded records: a login needs the same five records several times.
    let decoded = Memo<Data, Record>(count: 16)

    /// - Parameters:
    ///   - name: 1 to 128 bytes of UTF-8 in Unicode normalization form C, without control and
    ///     invisible characters.
    ///   - store: The store that contains the records.
    ///   - keystore: The hardware that protects the records. It is not used before it is needed.
    /// - Throws: ``CommonError`` with code `invalidInput` for an invalid name.
    public init(name: String = "default", store: RecordStore, keystore: any Keystore)
        throws(CommonError)
    {
        try Self.check(name: name)
        self.name = name
        self.store = store
        self.keystore = keystore
        keyring = RecordKeyring(store: store, container: name, keystore: keystore)
    }

    /// - Throws: ``CommonError`` with code `invalidInput` for an invalid name.
    package static func check(name: String) throws(CommonError) {
        guard name.isName(maximumBytes: 128) else {
            throw CommonError(
                operation: "open a container", code: .invalidInput,
                reason: "‘\(name)’ is not the name of a container",
                recovery:
                    "Use a name of 1 to 128 bytes with visible characters only, in Unicode normalization form C."
            )
        }
    }

    // MARK: Reading without hardware

    /// Reads a record's metadata, unverified. Does not use the hardware.
    ///
    /// - Returns: nil if there is no such record.
    /// - Throws: ``CommonError``; `damaged` if the row cannot be decoded. A damaged row is never
    ///   reported as missing.
    public func metadata(_ id: RecordID) async throws(CommonError) -> Record? {
        try await row(id).map { row throws(CommonError) in try record(of: row) }
    }

    /// Reads the metadata of the records with these names that exist, and of all records of a kind,
    /// at one moment. Unverified.
    package func metadata(
        _ ids: [RecordID], andAll kind: String
    ) async throws(CommonError) -> (named: [Record], ofKind: [Record]) {
        let name = name
        let (named, ofKind) = try await store.read("read the records") { database in
            (
                try ids.compactMap {
                    try RecordRow.fetch(database, container: name, id: $0.rawValue)
                },
                try RecordRow.fetchAll(database, container: name, kind: kind)
            )
        }
        return (try named.map(record(of:)), try ofKind.map(record(of:)))
    }

    /// Reads the metadata of all records of a kind, oldest first, unverified. Does not use the
    /// hardware.
    public func list(_ kind: String) async throws(CommonError) -> [Record] {
        let name = name
        return try await store.read("list the records") { database in
            try RecordRow.fetchAll(database, container: name, kind: kind).map { try $0.record() }
        }
    }

    /// Reads all records that contain a hardware key, of any kind, oldest first. Does not use the
    /// hardware, which authenticates the keys when they are used.
    public func keys() async throws(CommonError) -> [Record] {
        try await store.read("list the keys") { database in
            try RecordSnapshot(self, in: database).keys()
        }
    }

    // MARK: With hardware

    /// Opens a class: one hardware operation, with the user verification that its policy requires.
    /// Does nothing if it is open.
    ///
    /// - Throws: ``CommonError``; `notFound` if nothing is stored in a class that requires user
    ///   verification.
    public func open(
        _ protection: ProtectionClass, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) {
        do throws(CommonError) {
            try await keyring.open(protection, for: prompt, authorizedBy: presence)
        } catch {
            throw error.during("open \(protection.words)")
        }
    }

    /// Discards all record keys, and the proofs that would open them again. All sessions of this
    /// container close.
    public func lock() async {
        keystore.endReuse()
        keyring.lock()
    }

    /// Reads a record and its payload, and verifies them. Opens the device class, and the record's
    /// own class if the record has a payload.
    ///
    /// - Returns: nil if there is no such record; a nil payload if the record has none.
    /// - Throws: ``CommonError``; `damaged` if another program changed the row, `wrongDevice` on
    ///   other hardware.
    public func read(
        _ id: RecordID, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority = NobodyPresent()
    ) async throws(CommonError) -> (record: Record, payload: SecretBytes?)? {
        do throws(CommonError) {
            guard let row = try await row(id) else { return nil }
            if !row.isSelfAuthenticated {
                try await keyring.open(.device, for: prompt, authorizedBy: presence)
                if row.payload != nil {
                    try await keyring.open(
                        record(of: row).protection, for: prompt, authorizedBy: presence)
                }
            }
            return try verified(row)
        } catch {
            throw error.during("read the record ‘\(id)’")
        }
    }

    /// Makes all the changes in one durable transaction, or none.
    ///
    /// It first opens the classes that the changes need, so it may prompt. Deleting uses no
    /// hardware and does not prompt.
    ///
    /// A class that requires user verification is created with its first records, in the same
    /// transaction. After that, this program can add records while the class is open; any program
    /// can replace one of its records. So an attacker who can write the file cannot prepare a class
    /// with a known key.
    ///
    /// - Returns: The records that were put, in order, as stored.
    /// - Throws: ``CommonError``; `conflict` if a record's generation is not the expected one,
    ///   `damaged` if another program may know the key of a record's class.
    @discardableResult
    public func apply(
        _ changes: [RecordChange], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority = NobodyPresent()
    ) async throws(CommonError) -> [Record] {
        try await apply(changes, classes: [], for: prompt, authorizedBy: presence)
    }

    // MARK: Helpers

    func row(_ id: RecordID) async throws(CommonError) -> RecordRow? {
        let name = name
        return try await store.read("read the record ‘\(id)’") { database in
            try RecordRow.fetch(database, container: name, id: id.rawValue)
        }
    }
}

/// Synchronous calls, for facades with synchronous calls. They use memory and disk only, on the
/// caller's own thread, and do not prompt. The protection classes that they need must be open.
extension RecordContainer {
    /// Reads a record's metadata, as ``metadata(_:)`` does.
    package func metadataNow(_ id: RecordID) throws(CommonError) -> Record? {
        try rowNow(id).map { row throws(CommonError) in try record(of: row) }
    }

    /// Whether there is a row of that name, decodable or not.
    package func exists(_ id: RecordID) throws(CommonError) -> Bool {
        try rowNow(id) != nil
    }

    /// Reads a record and its payload, and verifies them.
    ///
    /// - Parameter session: The session in which the payload's class must be open; nil for any
    ///   session.
    /// - Throws: ``CommonError``; `wrongState` if the class is locked, or was locked after
    ///   `session` was opened.
    package func readNow(
        _ id: RecordID, in session: ClassSession? = nil
    ) throws(CommonError) -> (record: Record, payload: SecretBytes?)? {
        do throws(CommonError) {
            return try rowNow(id).map { row throws(CommonError) in try verified(row, in: session)
            }
        } catch {
            throw error.during("read the record ‘\(id)’")
        }
    }

    /// Makes all the changes or none, as ``apply(_:for:authorizedBy:)`` does.
    ///
    /// - Throws: ``CommonError``; `wrongState` if a class that the changes need is locked; the error
    ///   of the condition.
    @discardableResult
    package func applyNow(
        _ changes: [RecordChange], classes: [ClassChange] = [], if condition: RecordCondition? = nil
    ) throws(CommonError) -> [Record] {
        do throws(CommonError) {
            let transaction = try transaction(changes, classes)
            let records = try store.writeNow("store the records") { database in
                try condition?(RecordSnapshot(self, in: database))
                return try transaction.apply(changes, classes, to: database)
            }
            finish(classes)
            return records
        } catch {
            throw error.during("store the records")
        }
    }

    private func rowNow(_ id: RecordID) throws(CommonError) -> RecordRow? {
        try store.readNow("read the record ‘\(id)’") { database in
            try RecordRow.fetch(database, container: name, id: id.rawValue)
        }
    }
}

// Records that other hardware protects, for example in a store that was copied from another machine.
extension RecordContainer {
    /// Whether other hardware protects the records, so that this machine cannot open them. Facades
    /// then do not show them. iOS also shows no item of another device. Does not prompt.
    ///
    /// Each call queries the hardware until the hardware has confirmed that it protects the
    /// records. Does not query it while the records are open.
    ///
    /// - Returns: False if the hardware does not answer, and for records that do not depend on the
    ///   hardware.
    package func isForeign() async throws(CommonError) -> Bool {
        try await keyring.isForeign()
    }

    /// The last result of ``isForeign()``, or of an attempt to open the records. False before both.
    package var isKnownForeign: Bool { keyring.isKnownForeign ?? false }

    /// The kind of keystore that seals the container's device key: `tpm` or `pkcs11`; nil if the
    /// container has none yet. Does not use the hardware.
    package func sealingBackend() async throws(CommonError) -> String? {
        try await keyring.stored(ProtectionClass.device.name)?.backend
    }
}
