import FoundationEssentials
import Glibc
import Latchkey

/// How text is made to stand out: by sequences that a terminal obeys (ECMA-48 section 8.3.117, SGR), or not at all.
struct Style: Sendable {
    enum Tone: String, Sendable {
        case strong = "1"
        case bad = "31"
        case good = "32"
        case caution = "33"
    }

    /// As text is in files and pipes.
    static let plain = Style(isOn: false)

    private let isOn: Bool

    private init(isOn: Bool) { self.isOn = isOn }

    /// For what is written to a descriptor: on at a terminal, unless that is dumb or `NO_COLOR` is set to something
    /// (no-color.org).
    init(
        for descriptor: Int32, environment: [String: String] = ProcessInfo.processInfo.environment
    ) {
        let isRefused = environment["NO_COLOR"].map { !$0.isEmpty } ?? false
        isOn = !isRefused && environment["TERM"] != "dumb" && isatty(descriptor) == 1
    }

    /// Lines that may contain text from outside: nothing but the ends of lines and this style's own sequences is left to
    /// control a terminal.
    func printable(_ lines: String) -> String {
        guard isOn else { return Self.printable(lines) }
        let sequences = lines.matches(of: /\u{1B}\[(?:0|1|31|32|33)m/).map(\.range)
        let starts = [lines.startIndex] + sequences.map(\.upperBound)
        let ends = sequences.map(\.lowerBound) + [lines.endIndex]
        let between = zip(starts, ends).map { Self.printable(lines[$0..<$1]) }
        return zip(between, sequences.map { String(lines[$0]) } + [""]).map { $0 + $1 }.joined()
    }

    private static func printable(_ lines: some StringProtocol) -> String {
        lines.split(separator: "\n", omittingEmptySubsequences: false).map { String(oneLine: $0) }
            .joined(separator: "\n")
    }

    func callAsFunction(_ text: String, _ tone: Tone) -> String {
        isOn ? "\u{1B}[\(tone.rawValue)m\(text)\u{1B}[0m" : text
    }
}
