import Dispatch
import FoundationEssentials
import GRDB

@testable import Latchkey
@testable import LatchkeyCredentials
@testable import LatchkeyLocker
@testable import LatchkeyLogin

extension FuzzTarget {
    /// The columns of one row, of any type: one byte for the type, two for the length, then the
    /// value.
    static let storedRows = FuzzTarget("stored-rows") { (input) throws(Contradiction) in
        let columns = [
            "container", "id", "kind", "class", "policy", "attributes", "hardwareKey", "payload",
            "generation",
            "createdAt", "updatedAt", "mac", "name", "sealed",
        ]
        var values: [String: (any DatabaseValueConvertible)?] = [:]
        var rest = input[...]
        for column in columns {
            guard let type = rest.popFirst(), let high = rest.popFirst(), let low = rest.popFirst()
            else { break }
            let value = Array(rest.prefix(Int(high) << 8 | Int(low)))
            rest = rest.dropFirst(value.count)
            values[column] = StoredValue(type: type, bytes: value).databaseValue
        }
        let row = Row(values)
        if let record = try? RecordRow(row) {
            _ = (record.header, record.authenticatedBytes, record.isSelfAuthenticated)
            if let read = try? record.record() {
                _ = read.isBareKey
                _ = try? CredentialRows.metadata(read)
                _ = LockerCounters(read.attributes, generation: read.generation)
                _ = (Tombstone(read), PendingKey(read), LevelWraps(read.attributes))
            }
        }
        _ = try? RecordKeyRow(row).sealed
    }

    /// The whole database file of a store.
    static let storeFiles = FuzzTarget("store-files") { (input) throws(Contradiction) in
        guard let directory = StoreDirectory(holding: input) else { return }
        withExtendedLifetime(directory) {
            let done = DispatchSemaphore(value: 0)
            Task {
                await directory.use()
                done.signal()
            }
            done.wait()
        }
    }
}
