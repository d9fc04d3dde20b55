internal import CPostgreSQL
internal import FoundationEssentials
internal import LatchkeyRelyingParty

/// The types of `pg_type.dat` that this client uses.
private enum OID {
    static let bool: CPostgreSQL.Oid = 16
    static let bytea: CPostgreSQL.Oid = 17
    static let int8: CPostgreSQL.Oid = 20
    static let int4: CPostgreSQL.Oid = 23
    static let text: CPostgreSQL.Oid = 25
    static let float8: CPostgreSQL.Oid = 701
    static let void: CPostgreSQL.Oid = 2278
}

/// Values in PostgreSQL's binary format: integers and floating-point numbers with the most
/// significant byte first.
struct Parameters {
    let types: [CPostgreSQL.Oid]
    private let values: [[UInt8]?]

    var count: Int32 { Int32(values.count) }

    init(_ values: [SQLValue]) {
        types = values.map { value in
            switch value {
            case .text: OID.text
            case .blob: OID.bytea
            case .real: OID.float8
            case .integer: OID.int8
            case .bool: OID.bool
            }
        }
        self.values = values.map { value in
            switch value {
            case .text(let text): text.map { Array($0.utf8) }
            case .blob(let data): data.map { Array($0) }
            case .real(let number): number.map { Self.bytes($0.bitPattern) }
            case .integer(let number): number.map { Self.bytes(UInt64(bitPattern: Int64($0))) }
            case .bool(let value): value.map { [$0 ? 1 : 0] }
            }
        }
    }

    private static func bytes(_ number: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) }
    }

    func withPointers<R>(
        _ body: (
            UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<Int32>?, UnsafePointer<Int32>?
        ) -> R
    ) -> R {
        let lengths = values.map { Int32($0?.count ?? 0) }
        let formats = values.map { _ in Int32(1) }
        // One buffer, with a byte after each value, so that an empty value is not NULL.
        let bytes = values.flatMap { value -> [UInt8] in (value ?? []) + [0] }
        return bytes.withUnsafeBytes { buffer in
            var position = 0
            let pointers = values.map { value -> UnsafePointer<CChar>? in
                defer { position += (value?.count ?? 0) + 1 }
                guard value != nil else { return nil }
                return buffer.baseAddress.map {
                    ($0 + position).assumingMemoryBound(to: CChar.self)
                }
            }
            return body(pointers, lengths, formats)
        }
    }
}

/// Reads the rows of a result: binary, or text for statements without parameters.
struct RowReader {
    private let result: OpaquePointer

    init(_ result: OpaquePointer) { self.result = result }

    func rows() throws -> [SQLRow] {
        let columns = (0..<PQnfields(result)).map { String(cString: PQfname(result, $0)) }
        return try (0..<PQntuples(result)).map { row in
            SQLRow(columns: columns, values: try (0..<PQnfields(result)).map { try value(row, $0) })
        }
    }

    private func value(_ row: Int32, _ column: Int32) throws -> SQLValue? {
        guard PQgetisnull(result, row, column) == 0, let start = PQgetvalue(result, row, column)
        else { return nil }
        let bytes = UnsafeRawBufferPointer(
            start: start, count: Int(PQgetlength(result, row, column)))
        let type = PQftype(result, column)
        guard PQfformat(result, column) == 1 else {
            let text = String(decoding: bytes, as: UTF8.self)
            return type == OID.float8 ? .real(Double(text)) : .text(text)
        }
        switch type {
        case OID.text: return .text(String(decoding: bytes, as: UTF8.self))
        case OID.bytea: return .blob(Data(bytes))
        case OID.bool where bytes.count == 1: return .bool(bytes[0] != 0)
        case OID.float8 where bytes.count == 8: return .real(Double(bitPattern: Self.number(bytes)))
        case OID.int8 where bytes.count == 8:
            return .integer(Int(Int64(bitPattern: Self.number(bytes))))
        case OID.int4 where bytes.count == 4:
            return .integer(Int(Int32(truncatingIfNeeded: Self.number(bytes))))
        // The result of a function that returns nothing.
        case OID.void: return nil
        default:
            throw SQLFailure(.statement, "a column has the type \(type), which is not supported")
        }
    }

    private static func number(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }
}
