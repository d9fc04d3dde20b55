import ArgumentParser
import Latchkey

/// A key's id as an argument.
struct KeyIDArgument: ExpressibleByArgument {
    let id: KeyID

    init?(argument: String) {
        guard let id = KeyID(rawValue: argument) else { return nil }
        self.id = id
    }
}
