import ArgumentParser

/// What names a key in an argument: its id, the beginning of that, or its label.
struct KeyIDArgument: ExpressibleByArgument {
    let text: String

    init?(argument: String) {
        guard !argument.isEmpty else { return nil }
        text = argument
    }
}
