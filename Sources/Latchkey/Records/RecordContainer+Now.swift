internal import GRDB

/// What touches memory and disk only, on the caller's own thread: for facades whose calls are synchronous. Nobody is
/// asked and the hardware is not touched; the classes that are needed must be open.
extension RecordContainer {
    /// ``metadata(_:)``.
    package func metadataNow(_ id: RecordID) throws(KeystoreError) -> Record? {
        try rowNow(id).map { row throws(KeystoreError) in try Self.record(of: row) }
    }

    /// Whether there is a row of that name, readable or not.
    package func exists(_ id: RecordID) throws(KeystoreError) -> Bool {
        try rowNow(id) != nil
    }

    /// A record and its payload, verified.
    ///
    /// - Parameter session: What the payload's class must be open in; nil for any session.
    /// - Throws: ``KeystoreError``; `wrongState` when the class is locked, or was locked since `session` was opened.
    package func readNow(
        _ id: RecordID, in session: ClassSession? = nil
    ) throws(KeystoreError) -> (record: Record, payload: SecretBytes?)? {
        try rowNow(id).map { row throws(KeystoreError) in try verified(row, in: session) }
    }

    /// ``apply(_:for:authorizedBy:)``.
    ///
    /// - Throws: ``KeystoreError``; `wrongState` when a class that the changes need is locked.
    @discardableResult
    package func applyNow(_ changes: [RecordChange], classes: [ClassChange] = []) throws(KeystoreError) -> [Record] {
        let transaction = try transaction(changes, classes)
        let records = try store.writeNow("store the records") { database in
            try transaction.apply(changes, classes, to: database)
        }
        finish(classes)
        return records
    }

    private func rowNow(_ id: RecordID) throws(KeystoreError) -> RecordRow? {
        try store.readNow("read the record ‘\(id)’") { database in
            try RecordRow.fetch(database, container: name, id: id.rawValue)
        }
    }
}
