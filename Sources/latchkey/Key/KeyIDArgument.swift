import ArgumentParser
import Latchkey

/// A key's id as an argument, or the beginning of one: at least 4 characters.
struct KeyIDArgument: ExpressibleByArgument {
    static let fewestCharacters = 4

    let text: String

    init?(argument: String) {
        // What is too short for an id must be able to begin one.
        let whole = argument + String(repeating: "0", count: max(0, 8 - argument.utf8.count))
        guard argument.utf8.count >= Self.fewestCharacters, KeyID(rawValue: whole) != nil else { return nil }
        text = argument
    }
}
