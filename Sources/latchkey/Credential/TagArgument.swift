import ArgumentParser

/// A tag as `name=value`. The value may be empty, and may have more equals signs.
struct TagArgument: ExpressibleByArgument {
    let name: String
    let value: String

    init?(argument: String) {
        let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty else { return nil }
        (name, value) = (String(parts[0]), String(parts[1]))
    }
}

extension [TagArgument] {
    /// The tags; of two with one name, the last.
    var tags: [String: String] {
        Dictionary(map { ($0.name, $0.value) }) { $1 }
    }
}
