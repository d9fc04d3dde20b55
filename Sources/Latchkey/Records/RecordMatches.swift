/// What a search brought up.
package struct RecordMatches: Sendable {
    package var records: [Record] = []
    /// One error for each row that could not be read.
    package var unreadable: [KeystoreError] = []

    /// The row's record; nil, with a note, when it can't be read.
    mutating func record(of row: RecordRow) -> Record? {
        do {
            return try row.record()
        } catch {
            unreadable.append(KeystoreError(storing: "read a record", error))
            return nil
        }
    }
}
