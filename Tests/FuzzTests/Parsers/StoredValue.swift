import FoundationEssentials
import GRDB

/// A value as SQLite may hold one in any column of a table that is not what it should be.
struct StoredValue {
    let databaseValue: DatabaseValue

    /// - Parameter type: 0 a text, 1 a number, 2 bytes, 3 nothing, 4 a fraction; others likewise.
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
