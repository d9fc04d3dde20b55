internal import FoundationEssentials
internal import GRDB

/// The records of one name: what one app, account or profile stores. Containers don't see each other.
///
/// ``metadata(_:)`` and ``list(_:)`` need no hardware and verify nothing: let them decide what to show, not what to
/// allow. ``read(_:for:authorizedBy:)`` verifies. ``apply(_:for:authorizedBy:)`` is the one way to write: all changes
/// or none.
public final class RecordContainer: Sendable {
    /// The most bytes that a payload may have.
    public static let maximumPayloadBytes = 1 << 20

    /// Its name: every record is scoped by it.
    public let name: String
    /// The hardware that holds its classes' keys.
    public let keystore: any Keystore
    let store: RecordStore
    let classes: ClassKeyring

    /// - Parameters:
    ///   - name: 1 to 128 bytes of UTF-8 without control characters.
    ///   - store: Where the records are.
    ///   - keystore: What protects them. It is not touched before it is needed.
    /// - Throws: ``KeystoreError`` with code `invalidInput` for an impossible name.
    public init(name: String = "default", store: RecordStore, keystore: any Keystore) throws(KeystoreError) {
        guard
            (1...128).contains(name.utf8.count),
            !name.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
        else { throw .invalidInput("open a container", "‘\(name)’ is no name for one") }
        self.name = name
        self.store = store
        self.keystore = keystore
        classes = ClassKeyring(store: store, container: name, keystore: keystore)
    }

    // MARK: Without hardware

    /// A record's metadata, unverified. Needs no hardware.
    ///
    /// - Returns: nil when there is no such record.
    /// - Throws: ``KeystoreError``; `damaged` when the row can't be read at all: that is never reported as absent.
    public func metadata(_ id: RecordID) async throws(KeystoreError) -> Record? {
        try await row(id).map { row throws(KeystoreError) in try Self.record(of: row) }
    }

    /// The metadata of all records of a kind, oldest first, unverified. Needs no hardware.
    public func list(_ kind: RecordKind) async throws(KeystoreError) -> [Record] {
        let name = name
        return try await store.read("list the records") { database in
            try RecordRow.fetchAll(database, container: name, kind: kind.rawValue).map { try $0.record() }
        }
    }

    /// All records that hold a hardware key, of whatever kind, oldest first. Needs no hardware: the hardware
    /// authenticates the keys when they are used.
    public func keys() async throws(KeystoreError) -> [Record] {
        let name = name
        return try await store.read("list the keys") { database in
            try RecordRow.fetchAllWithKeys(database, container: name).map { try $0.record() }
        }
    }

    // MARK: With hardware

    /// Opens a class: one hardware operation, and the presence that its policy asks for. Does nothing when it is open.
    ///
    /// - Throws: ``KeystoreError``; `notFound` when nothing is stored in a class for which somebody must be present.
    public func open(
        _ protection: ProtectionClass, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        try await classes.open(protection, for: prompt, authorizedBy: presence)
    }

    /// Forgets all class keys, and every proof with which the hardware would open them again. What was opened through
    /// this container stops opening at once.
    public func lock() async {
        keystore.endReuse()
        classes.lock()
    }

    /// A record and its payload, verified. Opens the device class, and the record's own class if it has a payload.
    ///
    /// - Returns: nil when there is no such record; a nil payload when the record has none.
    /// - Throws: ``KeystoreError``; `damaged` when anything of the row was changed by somebody else, `wrongDevice` on
    ///   other hardware.
    public func read(
        _ id: RecordID, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority = NobodyPresent()
    ) async throws(KeystoreError) -> (record: Record, payload: SecretBytes?)? {
        guard let row = try await row(id) else { return nil }
        if !row.isSelfAuthenticated {
            try await classes.open(.device, for: prompt, authorizedBy: presence)
            if row.payload != nil {
                try await classes.open(Self.record(of: row).protection, for: prompt, authorizedBy: presence)
            }
        }
        return try verified(row)
    }

    /// Makes all the changes in one durable transaction, or none.
    ///
    /// Classes that the changes need are opened first, so a person may be asked. Deleting needs neither the hardware
    /// nor anybody.
    ///
    /// A class for which somebody must be present is made with its first records, in the same transaction. After that
    /// it takes others from this program while it is open; from any program it takes what replaces one of its records.
    /// So nobody who may write the file can prepare a class of which they know the key.
    ///
    /// - Returns: The records that were put, in order, as they are now stored.
    /// - Throws: ``KeystoreError``; `conflict` when a record's generation is not the expected one, `damaged` when the class
    ///   of a record may be somebody else's.
    @discardableResult
    public func apply(
        _ changes: [RecordChange], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority = NobodyPresent()
    ) async throws(KeystoreError) -> [Record] {
        try await apply(changes, classes: [], for: prompt, authorizedBy: presence)
    }

    // MARK: Helpers

    func row(_ id: RecordID) async throws(KeystoreError) -> RecordRow? {
        let name = name
        return try await store.read("read the record ‘\(id)’") { database in
            try RecordRow.fetch(database, container: name, id: id.rawValue)
        }
    }

    /// The row's record and payload. All the keys that it takes must be in memory.
    ///
    /// - Parameter session: What the payload's class must be open in; nil for any session.
    func verified(
        _ row: RecordRow, in session: ClassSession? = nil
    ) throws(KeystoreError) -> (record: Record, payload: SecretBytes?) {
        let record = try Self.record(of: row)
        guard !row.isSelfAuthenticated else {
            guard record.isBareKey, row.payload == nil else { throw Self.edited(record.id) }
            return (record, nil)
        }
        guard let device = classes.session(ProtectionClass.device.name)?.opened else {
            throw Self.locked(.device, record.id)
        }
        guard device.isAuthentic(row.mac, for: row.authenticatedBytes) else { throw Self.edited(record.id) }
        guard let sealed = row.payload else { return (record, nil) }
        guard let key = (session ?? classes.session(row.className))?.opened else {
            throw Self.locked(record.protection, record.id)
        }
        guard session?.name ?? row.className == row.className else {
            throw .conflict(
                "read the record ‘\(record.id)’", "its protection was changed meanwhile",
                recovery: "Look at what is there now, then try again.")
        }
        guard let payload = try? key.open(sealed, header: row.header) else { throw Self.edited(record.id) }
        return (record, payload)
    }

    static func locked(_ protection: ProtectionClass, _ id: RecordID) -> KeystoreError {
        KeystoreError(
            operation: "read the record ‘\(id)’", code: .wrongState,
            reason: "the class ‘\(protection.name)’ is locked", recovery: "Unlock it and try again.")
    }

    static func record(of row: RecordRow) throws(KeystoreError) -> Record {
        do {
            return try row.record()
        } catch {
            throw KeystoreError(storing: "read a record", error)
        }
    }

    static func check(_ record: Record, _ payload: SecretBytes?) throws(KeystoreError) {
        let operation = "store the record ‘\(record.id)’"
        guard
            (1...128).contains(record.id.rawValue.utf8.count),
            !record.id.rawValue.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
        else { throw .invalidInput(operation, "its name is empty, too long, or has a control character") }
        guard payload?.count ?? 0 <= maximumPayloadBytes else {
            throw .invalidInput(operation, "it is larger than \(maximumPayloadBytes) bytes")
        }
        if ProtectionClass.isSelfAuthenticated(record.protection.name) {
            guard record.isBareKey, payload == nil else {
                throw .invalidInput(operation, "only a bare key, named by its id, can do without a class")
            }
        }
    }

    static func edited(_ id: RecordID) -> KeystoreError {
        .damaged("read the record ‘\(id)’", "it is not what was stored: somebody or something else changed it")
    }
}
