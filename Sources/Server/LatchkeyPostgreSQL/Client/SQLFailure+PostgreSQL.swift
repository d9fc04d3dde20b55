internal import CPostgreSQL
internal import FoundationEssentials
internal import LatchkeyRelyingParty

extension SQLFailure {
    /// The schema or the session changed under a prepared statement: feature_not_supported,
    /// invalid_sql_statement_name.
    static let staleStates: Set = ["0A000", "26000"]

    /// What libpq reports without SQLSTATE, and reports again at each attempt.
    private static let lastingReasons = ["certificate", "SSL was required", "invalid "]

    /// PostgreSQL's error without its details, which can contain values.
    init(_ result: OpaquePointer) {
        func field(_ code: Unicode.Scalar) -> String? {
            PQresultErrorField(result, Int32(code.value)).map { String(cString: $0) }
        }
        let state = field("C") ?? ""
        let message = field("M") ?? "the database reported an error"
        self.init(Self.code(of: state), sqlState: state, message)
    }

    /// The error of a connection that failed, whose messages have the verbosity
    /// `PQERRORS_VERBOSE`: with the SQLSTATE if the server refused it.
    ///
    /// It has one line for each address, and others: hints, which begin with a tab, and the place in
    /// the server's source.
    init(refusedAt connection: OpaquePointer) {
        var (code, state) = (Code.unavailable, String?.none)
        let lines = Self.lines(connection).filter {
            !$0.hasPrefix("\t") && !$0.hasPrefix("LOCATION: ")
        }
        let message = lines.map { line in
            guard let match = line.firstMatch(of: #/: {2}([0-9A-Z]{5}): /#) else { return line }
            state = String(match.1)
            if Self.code(of: match.1) == .statement { code = .refused }
            return line.replacing(match.0, with: ": ", maxReplacements: 1)
        }.joined(separator: "; ")
        if state == nil,
            PQconnectionNeedsPassword(connection) == 1
                || Self.lastingReasons.contains(where: { message.contains($0) })
        {
            code = .refused
        }
        self.init(code, sqlState: state, message)
    }

    /// The lines of libpq's error.
    static func lines(_ connection: OpaquePointer) -> [Substring] {
        String(cString: PQerrorMessage(connection)).split(separator: "\n")
    }

    private static func code(of state: some StringProtocol) -> Code {
        switch state {
        case "40001", "40P01": .conflict
        case "57014", "55P03": .timeout
        case "22021": .invalidText
        case _ where staleStates.contains(String(state)): .conflict
        case "25006": .unavailable
        case _ where state.hasPrefix("08") || state.hasPrefix("57P") || state.hasPrefix("53"):
            .unavailable
        default: .statement
        }
    }
}
