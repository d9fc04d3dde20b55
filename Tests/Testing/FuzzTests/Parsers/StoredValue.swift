import FoundationEssentials
import GRDB

/// A value of any type, which SQLite allows in any column.
struct StoredValue {
    let databaseValue: DatabaseValue

    /// - Parameter type: 0 text, 1 integer, 2 blob, 3 NULL, 4 real; other numbers repeat these.
    init(type: UInt8, bytes: [UInt8]) {
        databaseValue =
            switch type % 5 {
            case 0: String(decoding: bytes, as: UTF8.self).databaseValue
            case 1: Self.number(bytes).databaseValue
            case 2: Data(bytes).databaseValue
            case 3: .null
            default: Double(bitPattern: UInt64(bitPattern: Self.number(bytes))).databaseValue
            }
    }

    private static func number(_ bytes: [UInt8]) -> Int64 {
        bytes.prefix(8).reduce(0) { $0 << 8 | Int64($1) }
    }
}
