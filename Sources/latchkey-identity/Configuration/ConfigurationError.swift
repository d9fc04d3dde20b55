import FoundationEssentials

/// A configuration file that can't be used, and why.
struct ConfigurationError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }

    init(_ error: DecodingError) {
        func path(_ context: DecodingError.Context, _ last: (any CodingKey)? = nil) -> String {
            (context.codingPath + (last.map { [$0] } ?? [])).map { $0.intValue.map(String.init) ?? $0.stringValue }
                .joined(separator: ".")
        }
        switch error {
        case .keyNotFound(let key, let context): description = "\(path(context, key)): missing"
        case .typeMismatch(_, let context): description = "\(path(context)): of the wrong type"
        case .valueNotFound(_, let context): description = "\(path(context)): null"
        case .dataCorrupted(let context) where context.codingPath.isEmpty: description = "the file is not valid JSON"
        case .dataCorrupted(let context): description = "\(path(context)): \(context.debugDescription)"
        @unknown default: description = "\(error)"
        }
    }
}
