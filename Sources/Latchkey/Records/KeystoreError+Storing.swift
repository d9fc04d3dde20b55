internal import FoundationEssentials
internal import GRDB

extension KeystoreError {
    /// What a failure of SQLite means to a person. A ``KeystoreError`` passes through as it is.
    init(storing operation: String, _ error: any Error) {
        if let error = error as? KeystoreError {
            self = error
            return
        }
        // Tables take no values of other types: this is none of ours.
        if error is RowDecodingError {
            self = .damaged(operation, "the store's file is damaged: a table holds what it can't hold")
            return
        }
        guard let error = error as? DatabaseError else {
            let cancelled = error is CancellationError
            self.init(
                operation: operation, code: cancelled ? .cancelled : .failed,
                reason: cancelled ? "it was cancelled" : "\(error)", recovery: "Try again.")
            return
        }
        let (code, reason, recovery) = Self.meaning(of: error.extendedResultCode)
        self.init(
            operation: operation, code: code, reason: reason, recovery: recovery,
            underlying: Underlying(
                layer: "sqlite", rawCode: UInt32(bitPattern: error.extendedResultCode.rawValue),
                text: error.message ?? "no message"))
    }

    private static func meaning(of code: ResultCode) -> (Code, String, String) {
        // The memory that SQLite's processes share is a file beside the store, which could not be made as long as it must
        // be: in practice, for want of room.
        if code == .SQLITE_IOERR_SHMSIZE { return meaning(of: .SQLITE_FULL) }
        return switch code.primaryResultCode {
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            (.transient, "another process is writing to the store", "Try again.")
        case .SQLITE_FULL:
            (.unavailable, "the disk is full; nothing was changed", "Make room and try again.")
        case .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_CANTOPEN, .SQLITE_AUTH:
            (.unavailable, "the store can't be written", "Check the owner and mode of the store's directory.")
        case .SQLITE_IOERR:
            (.unavailable, "the disk reports an error", "Check the disk, then try again.")
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            (
                .damaged, "the store's file is damaged; it was left as it is",
                "Restore the store from a backup, or move the file away and set up again."
            )
        case .SQLITE_CONSTRAINT:
            (.conflict, "the record is there already", "Look at what is there, then try again.")
        default:
            (.failed, "the database refused", "Try again; if it stays, report it with the code.")
        }
    }
}
