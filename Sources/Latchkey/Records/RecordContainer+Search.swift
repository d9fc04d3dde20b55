internal import GRDB

extension RecordContainer {
    /// The records of a kind that match, oldest first, unverified. Needs no hardware, and looks only at what matches.
    package func find(_ kind: RecordKind, where query: RecordQuery) async throws(KeystoreError) -> RecordMatches {
        let name = name
        return try await store.read("search the records") { database in
            try query.fetch(database, container: name, kind: kind.rawValue)
        }
    }

    /// ``find(_:where:)`` on the caller's own thread.
    package func findNow(_ kind: RecordKind, where query: RecordQuery) throws(KeystoreError) -> RecordMatches {
        try store.readNow("search the records") { database in
            try query.fetch(database, container: name, kind: kind.rawValue)
        }
    }

    /// The records of a kind that `isWanted`, oldest first, unverified. Looks at every record of the kind, one after the
    /// other, and keeps only what is wanted.
    package func scanNow(_ kind: RecordKind, _ isWanted: (Record) throws -> Bool) throws -> RecordMatches {
        try store.readNow("search the records") { database in
            let rows = try RecordRow.fetchCursor(database, container: name, kind: kind.rawValue)
            return Result {
                var matches = RecordMatches()
                while let row = try rows.next() {
                    guard let record = matches.record(of: row), try isWanted(record) else { continue }
                    matches.records.append(record)
                }
                return matches
            }
        }.get()
    }

    /// Whether there is any record of the kind. Needs no hardware.
    package func hasAny(_ kind: RecordKind) throws(KeystoreError) -> Bool {
        try store.readNow("look at the records") { database in
            try RecordRow.exists(database, container: name, kind: kind.rawValue)
        }
    }

    /// The ids of all records of a kind, oldest first. Needs no hardware.
    package func idsNow(_ kind: RecordKind) throws(KeystoreError) -> [RecordID] {
        try store.readNow("list the records") { database in
            try RecordRow.fetchIDs(database, container: name, kind: kind.rawValue).map(RecordID.init(rawValue:))
        }
    }
}
