public import FoundationEssentials

/// One SQL statement, or a part of one. Interpolated values become parameters; they are never part
/// of the text.
///
/// ```swift
/// let statement: SQLText = "SELECT jwk FROM latchkey_device WHERE kid = \(kid)"
/// ```
public struct SQLText: Sendable, ExpressibleByStringInterpolation {
    enum Part: Sendable {
        case text(String)
        case value(SQLValue)
    }

    let parts: [Part]

    /// The text that the compiler knows.
    public init(stringLiteral value: String) { parts = [.text(value)] }

    /// Creates a statement from a literal with values.
    public init(stringInterpolation: StringInterpolation) { parts = stringInterpolation.parts }

    package init(constant: StaticString) { parts = [.text(constant.description)] }

    /// The text with the dialect's placeholders, and their values: `?` in SQLite, `$1` in
    /// PostgreSQL.
    public func rendered(for dialect: SQLDialect) -> (text: String, values: [SQLValue]) {
        var (text, values) = ("", [SQLValue]())
        for part in parts {
            switch part {
            case .text(let part): text += part
            case .value(let value):
                values.append(value)
                text += dialect == .sqlite ? "?" : "$\(values.count)"
            }
        }
        return (text, values)
    }

    /// The parts of a literal.
    public struct StringInterpolation: StringInterpolationProtocol {
        var parts: [Part] = []

        /// Starts an empty statement.
        public init(literalCapacity: Int, interpolationCount: Int) {
            parts.reserveCapacity(2 * interpolationCount + 1)
        }

        /// Adds SQL.
        public mutating func appendLiteral(_ literal: String) { parts.append(.text(literal)) }

        /// Adds a text; nil for NULL.
        public mutating func appendInterpolation(_ value: String?) {
            parts.append(.value(.text(value)))
        }

        /// Adds bytes; nil for NULL.
        public mutating func appendInterpolation(_ value: Data?) {
            parts.append(.value(.blob(value)))
        }

        /// Adds a number; nil for NULL.
        public mutating func appendInterpolation(_ value: Double?) {
            parts.append(.value(.real(value)))
        }

        /// Adds an integer; nil for NULL.
        public mutating func appendInterpolation(_ value: Int?) {
            parts.append(.value(.integer(value)))
        }

        /// Adds a truth value; nil for NULL.
        public mutating func appendInterpolation(_ value: Bool?) {
            parts.append(.value(.bool(value)))
        }

        /// Adds a part of a statement, with its values.
        public mutating func appendInterpolation(_ part: SQLText) { parts += part.parts }
    }
}

/// A value in SQL; nil is NULL of the type.
public enum SQLValue: Hashable, Sendable {
    /// SQLite `TEXT`, PostgreSQL `text`.
    case text(String?)
    /// SQLite `BLOB`, PostgreSQL `bytea`.
    case blob(Data?)
    /// SQLite `REAL`, PostgreSQL `double precision`.
    case real(Double?)
    /// SQLite `INTEGER`, PostgreSQL `bigint`.
    case integer(Int?)
    /// SQLite `INTEGER` 0 or 1, PostgreSQL `boolean`.
    case bool(Bool?)
}

/// A row of a result.
public struct SQLRow: Sendable {
    private let columns: [String]
    private let values: [SQLValue?]

    /// Creates a row.
    ///
    /// - Parameter values: As many as columns; nil for NULL.
    public init(columns: [String], values: [SQLValue?]) {
        self.columns = columns
        self.values = values
    }

    /// The text of a column.
    ///
    /// - Throws: ``SQLFailure`` if the row has no such column, or one of another type.
    public func text(_ column: String) throws -> String {
        try require(column, optionalText(column))
    }
    /// The bytes of a column.
    ///
    /// - Throws: ``SQLFailure`` if the row has no such column, or one of another type.
    public func blob(_ column: String) throws -> Data { try require(column, optionalBlob(column)) }
    /// The number of a column, which can be an integer.
    ///
    /// - Throws: ``SQLFailure`` if the row has no such column, or one of another type.
    public func real(_ column: String) throws -> Double {
        try require(column, optionalReal(column))
    }

    /// The integer of a column.
    ///
    /// - Throws: ``SQLFailure`` if the row has no such column, or one of another type.
    public func integer(_ column: String) throws -> Int {
        guard case .integer(let value?) = try value(column) else { throw Self.damaged(column) }
        return value
    }

    /// The truth value of a column. SQLite has integers for them: 0 is false.
    ///
    /// - Throws: ``SQLFailure`` if the row has no such column, or one of another type.
    public func bool(_ column: String) throws -> Bool {
        switch try value(column) {
        case .bool(let value?): return value
        case .integer(let value?): return value != 0
        default: throw Self.damaged(column)
        }
    }

    /// The text of a column; nil for NULL.
    ///
    /// - Throws: ``SQLFailure`` if the row has no such column, or one of another type.
    public func optionalText(_ column: String) throws -> String? {
        switch try value(column) {
        case nil: return nil
        case .text(let value): return value
        default: throw Self.damaged(column)
        }
    }

    /// The bytes of a column; nil for NULL.
    ///
    /// - Throws: ``SQLFailure`` if the row has no such column, or one of another type.
    public func optionalBlob(_ column: String) throws -> Data? {
        switch try value(column) {
        case nil: return nil
        case .blob(let value): return value
        default: throw Self.damaged(column)
        }
    }

    /// The number of a column, which can be an integer; nil for NULL.
    ///
    /// - Throws: ``SQLFailure`` if the row has no such column, or one of another type.
    public func optionalReal(_ column: String) throws -> Double? {
        switch try value(column) {
        case nil: return nil
        case .real(let value): return value
        case .integer(let value): return value.map(Double.init)
        default: throw Self.damaged(column)
        }
    }

    private func value(_ column: String) throws -> SQLValue? {
        guard let index = columns.firstIndex(of: column), index < values.count else {
            throw Self.damaged(column)
        }
        return values[index]
    }

    private func require<T>(_ column: String, _ value: T?) throws -> T {
        guard let value else { throw Self.damaged(column) }
        return value
    }

    private static func damaged(_ column: String) -> SQLFailure {
        SQLFailure(.statement, "the result has no column \(column) of the expected type")
    }
}
