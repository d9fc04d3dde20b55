import Latchkey

/// Tells the demo as it happens: to stdout as its result, or to stderr where that is to be JSON.
struct Narrator: Sendable {
    let console: Console

    func heading(_ text: String) throws(KeystoreError) { try tell("\n\(text)", .strong) }

    func command(_ text: String) throws(KeystoreError) { try tell("  $ latchkey \(text)") }

    func detail(_ text: String) throws(KeystoreError) {
        for line in text.split(separator: "\n") { try tell("    \(line)") }
    }

    private func tell(_ line: String, _ tone: Style.Tone? = nil) throws(KeystoreError) {
        switch console.format {
        case .text: try console.result(tone.map { console.style(line, $0) } ?? line)
        case .json: console.say(String(line.trimmingPrefix("\n")))
        }
    }
}
