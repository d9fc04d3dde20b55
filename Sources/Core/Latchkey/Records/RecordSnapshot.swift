internal import GRDB

/// A condition of a transaction about the container's records before its changes, checked inside the
/// transaction. If it throws, the transaction changes nothing.
package typealias RecordCondition = @Sendable (RecordSnapshot) throws(CommonError) -> Void

/// The records of a container at one moment.
package struct RecordSnapshot {
    private let container: RecordContainer
    private let database: Database

    init(_ container: RecordContainer, in database: Database) {
        (self.container, self.database) = (container, database)
    }

    /// All records that contain a hardware key, of any kind, oldest first, unverified.
    package func keys() throws(CommonError) -> [Record] {
        do {
            return try RecordRow.fetchAllWithKeys(database, container: container.name).map {
                try $0.record()
            }
        } catch { throw CommonError(storing: error) }
    }

    /// The readable records of a kind with their payloads, oldest first, verified. Damaged ones are
    /// left out. The classes must be open.
    package func readable(_ kind: String) throws(CommonError) -> [(Record, SecretBytes?)] {
        let rows: [RecordRow]
        do {
            rows = try RecordRow.fetchAll(database, container: container.name, kind: kind)
        } catch { throw CommonError(storing: error) }
        var records: [(Record, SecretBytes?)] = []
        for row in rows {
            do throws(CommonError) { records.append(try container.verified(row)) } catch {
                guard error.code == .damaged else { throw error }
            }
        }
        return records
    }
}
