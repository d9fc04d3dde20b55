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

    /// How many records are in memory at once while all are looked at.
    private static let pageSize = 256

    /// The records of a kind that `isWanted`, oldest first, unverified. Looks at every record of the kind, and keeps only
    /// what is wanted.
    ///
    /// The records are read page by page, and nothing of the store is held while `isWanted` runs: it may use the store
    /// itself. What is stored, changed or deleted meanwhile, by whomever, is seen or not; what is there all the time is
    /// seen once.
    package func scanNow(_ kind: RecordKind, _ isWanted: (Record) throws -> Bool) throws -> RecordMatches {
        var matches = RecordMatches()
        var place: Int64 = 0
        while true {
            let page = try store.readNow("search the records") { database in
                try RecordRow.fetchPage(
                    database, container: name, kind: kind.rawValue, after: place, limit: Self.pageSize)
            }
            for row in page.rows {
                guard let record = matches.record(of: row), try isWanted(record) else { continue }
                matches.records.append(record)
            }
            guard page.rows.count == Self.pageSize else { return matches }
            place = page.end
        }
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
