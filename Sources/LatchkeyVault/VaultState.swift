internal import Latchkey

/// The state of a slot, from its row and the sessions that this program has open.
enum VaultState: Sendable {
    case empty
    case plain(Record)
    case open(Record, ClassSession)
    case locked(Record)
    case unusable(KeystoreError)

    /// - Parameters:
    ///   - record: The slot's row, if there is one; unverified.
    ///   - isDowngraded: Whether another program put the row in place of one with biometrics.
    ///   - session: Returns the open session of a class.
    init(
        _ record: Record?, of row: VaultRow, isDowngraded: Bool, session: (ProtectionClass) -> ClassSession?
    ) {
        switch record {
        case nil: self = .empty
        case let record? where record.kind != VaultRow.kind:
            self = .unusable(.damaged("open the vault", "the row of its name is not a vault"))
        case let record? where record.protection == .device:
            self = isDowngraded ? .unusable(.downgraded("open the vault")) : .plain(record)
        case let record? where !row.classes.contains(record.protection):
            self = .unusable(.damaged("open the vault", "its protection class is not a vault's"))
        case let record?:
            if let session = session(record.protection), session.isOpen {
                self = .open(record, session)
            } else {
                self = .locked(record)
            }
        }
    }
}

extension KeystoreError {
    static func downgraded(_ operation: String) -> KeystoreError {
        .damaged(operation, "another program replaced a value with biometrics by one without")
    }
}

/// The stored form of a vault: one record under the vault's name. A vault with biometrics also has its own protection class,
/// with a new key at each change of protection.
struct VaultRow: Sendable {
    static let kind: RecordKind = "vault"
    private static let longestKey = 64
    private static let idPrefix = "vault."

    let id: RecordID
    let classes: ClassFamily

    /// - Throws: ``KeystoreError`` with code `invalidInput` for an invalid key.
    init(key: String) throws(KeystoreError) {
        guard
            (1...Self.longestKey).contains(key.utf8.count),
            !key.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
        else {
            throw KeystoreError(
                operation: "open the vault", code: .invalidInput, reason: "‘\(key)’ is not a valid name",
                recovery: "Give it a name of 1 to \(Self.longestKey) bytes without control characters.")
        }
        id = RecordID(rawValue: Self.idPrefix + key)
        classes = ClassFamily("vault", of: key)
    }

    /// The key of the vault with this record.
    static func key(_ id: RecordID) -> String { String(id.rawValue.dropFirst(idPrefix.count)) }

    /// The change that stores the credentials.
    func put(_ payload: SecretBytes, in protection: ProtectionClass, ifGeneration generation: Int) -> RecordChange {
        .put(Record(id: id, kind: Self.kind, protection: protection), payload: payload, ifGeneration: generation)
    }
}
