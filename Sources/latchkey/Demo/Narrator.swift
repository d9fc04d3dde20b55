/// Tells the demo as it happens: to stdout as its result, or to stderr where that is to be JSON.
struct Narrator: Sendable {
    let console: Console

    func heading(_ text: String) { tell("\n\(text)") }

    func command(_ text: String) { tell("  $ latchkey \(text)") }

    func detail(_ text: String) {
        for line in text.split(separator: "\n") { tell("    \(line)") }
    }

    private func tell(_ line: String) {
        switch console.format {
        case .text: console.result(line)
        case .json: console.say(line)
        }
    }
}
