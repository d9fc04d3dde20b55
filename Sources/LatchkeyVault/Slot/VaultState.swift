internal import Latchkey

/// What a slot is in: a function of its row and of what this program has open.
enum VaultState: Sendable {
    case empty
    case plain(Record)
    case open(Record, ClassSession)
    case locked(Record)
    case unusable(KeystoreError)

    /// - Parameters:
    ///   - record: The slot's row, if there is one; it was not verified.
    ///   - isDowngraded: Whether it was put in the place of one with biometrics, by somebody else.
    ///   - session: What this program has open of a class.
    init(
        _ record: Record?, of row: VaultRow, isDowngraded: Bool, session: (ProtectionClass) -> ClassSession?
    ) {
        switch record {
        case nil: self = .empty
        case let record? where record.kind != VaultRow.kind:
            self = .unusable(.damaged("open the vault", "the row of its name is something else"))
        case let record? where record.protection == .device:
            self = isDowngraded ? .unusable(.downgraded("open the vault")) : .plain(record)
        case let record? where !row.classes.contains(record.protection):
            self = .unusable(.damaged("open the vault", "it is not under the protection of a vault"))
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
        .damaged(operation, "it was stored with biometrics, and something else has put in its place what is without")
    }
}
