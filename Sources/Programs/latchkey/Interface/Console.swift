import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeyServices
import Synchronization

/// The tool's output. The rules:
///
/// - stdout has only the result: text for people and pipes, or with `--json` exactly one JSON
///   object, even if the command fails.
/// - Prompts go to the terminal or to pinentry, never to stdout or stderr.
/// - stderr has everything else, each line with the prefix `latchkey: `, in sentences: the event,
///   then the next step. `--quiet` leaves only errors.
/// - Terminals get text that is wrapped to their width, with headings and local times, and colours
///   for states. Pipes and files do not; `NO_COLOR` and `TERM=dumb` turn colours off.
/// - Only commands whose result is a secret print one. U+FFFD replaces control, format and other
///   invisible characters in text, and JSON escapes them, so that text from a server, a module or a
///   file cannot control the terminal.
/// - A result that cannot be written is an error, so that scripts notice a full disk.
struct Console: Sendable {
    enum Format: Sendable {
        case text
        case json
    }

    let format: Format
    let isQuiet: Bool
    /// The style of text results.
    let style = Style(for: StandardStreams.outputDescriptor)
    private let errorStyle = Style(for: STDERR_FILENO)

    /// Prints a command's result.
    func show(_ report: some Report) throws {
        switch format {
        case .text where report.secretOutput != nil:
            try report.secretOutput?.withUnsafeBytes { try StandardStreams.write($0) }
        case .text:
            let layout = report.layout
            guard !layout.isEmpty else { return }
            let output = StandardStreams.outputDescriptor
            try result(
                isatty(output) == 1
                    ? style.printable(layout.arranged(width: TerminalText.width(of: output), style))
                    : printableLines(layout.script))
        case .json: try result(report.bareOutput ?? Self.json(report))
        }
    }

    /// Prints a text result without changes: help, a completion script.
    func result(_ text: String) throws(KeystoreError) {
        try StandardStreams.write((text.hasSuffix("\n") ? text : text + "\n").utf8)
    }

    /// Reports progress, unless `--quiet`.
    func say(_ sentence: String) {
        if !isQuiet { write(sentence, .strong) }
    }

    /// A function that says once for each kind of hardware that the command waits for it; nil if no
    /// user reads it.
    var waitNotice: (@Sendable (HardwareWait.Party) -> Void)? {
        guard isatty(STDERR_FILENO) == 1, !isQuiet else { return nil }
        let named = NamedParties()
        return { if named.insert($0) { say("Waiting for \($0.rawValue) …") } }
    }

    private final class NamedParties: Sendable {
        private let parties = Mutex<Set<HardwareWait.Party>>([])

        /// - Returns: Whether the party is new.
        func insert(_ party: HardwareWait.Party) -> Bool {
            parties.withLock { $0.insert(party).inserted }
        }
    }

    /// Reports a fact that the user needs, even with `--quiet`.
    func warn(_ sentence: String) {
        write(sentence, .caution)
    }

    /// Reports an error in the requested format.
    ///
    /// - Returns: The exit status of the process.
    func fail(_ error: any Error) -> ExitStatus {
        let failure = ProgramFailure(error, of: LatchkeyTool.self)
        if let usage = failure.usage {
            // The parser's text repeats the arguments, with the usage below.
            for line in usage.split(separator: "\n", omittingEmptySubsequences: false) {
                StandardStreams.writeError(printable(String(line)))
            }
        } else {
            write(failure.message, .bad)
            for line in failure.recovery.split(separator: "\n") { write(String(line), .bad) }
        }
        // If this cannot be written, stderr still has the error, and the exit status shows it.
        if format == .json, let text = try? Self.json(["error": failure]) { try? result(text) }
        return failure.status
    }

    static func json(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        return escaped(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// Escapes all characters (RFC 8259 section 7) that a terminal would interpret or hide.
    private static func escaped(_ json: String) -> String {
        var result = ""
        for scalar in json.unicodeScalars {
            if scalar.isVisible {
                result.unicodeScalars.append(scalar)
            } else {
                for unit in String(scalar).utf16 {
                    result += "\\u" + String(UInt32(unit) + 0x10000, radix: 16).dropFirst()
                }
            }
        }
        return result
    }

    private func write(_ sentence: String, _ tone: Style.Tone) {
        let prefix = "latchkey:"
        let text = TerminalText.wrapped(
            printable(sentence), at: prefix.count + 1,
            TerminalText.width(of: STDERR_FILENO) ?? .max)
        StandardStreams.writeError("\(errorStyle(prefix, tone)) \(text)")
    }
}

/// Makes text from outside safe to print: one line of at most 4096 Unicode scalars.
func printable(_ text: String) -> String { String(oneLine: text, limit: 4096) }

/// Makes lines of text from outside safe to print.
func printableLines(_ lines: some StringProtocol) -> String {
    lines.split(separator: "\n", omittingEmptySubsequences: false).map { String(oneLine: $0) }
        .joined(separator: "\n")
}

/// The emphasis of text: terminal control sequences (ECMA-48 section 8.3.117, SGR), or none.
struct Style: Sendable {
    enum Tone: String, Sendable {
        case strong = "1"
        case bad = "31"
        case good = "32"
        case caution = "33"
    }

    private let isOn: Bool

    /// The style for a descriptor: emphasis on a terminal, unless `TERM` is `dumb` or `NO_COLOR` is
    /// not empty (no-color.org).
    init(
        for descriptor: Int32, environment: [String: String] = ProcessInfo.processInfo.environment
    ) {
        let isRefused = environment["NO_COLOR"].map { !$0.isEmpty } ?? false
        isOn = !isRefused && environment["TERM"] != "dumb" && isatty(descriptor) == 1
    }

    /// Makes lines with text from outside safe to print: of the control characters, only line ends
    /// and this style's sequences remain.
    func printable(_ lines: String) -> String {
        guard isOn else { return printableLines(lines) }
        let sequences = lines.matches(of: /\u{1B}\[(?:0|1|31|32|33)m/).map(\.range)
        let starts = [lines.startIndex] + sequences.map(\.upperBound)
        let ends = sequences.map(\.lowerBound) + [lines.endIndex]
        let between = zip(starts, ends).map { printableLines(lines[$0..<$1]) }
        return zip(between, sequences.map { String(lines[$0]) } + [""]).map { $0 + $1 }.joined()
    }

    func callAsFunction(_ text: String, _ tone: Tone) -> String {
        isOn ? "\u{1B}[\(tone.rawValue)m\(text)\u{1B}[0m" : text
    }
}
