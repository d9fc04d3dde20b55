import ArgumentParser
import FoundationEssentials
import Glibc
import Latchkey

/// How the tool speaks. The rules:
///
/// - stdout carries the result and nothing else: text for people and pipes, or with `--json` exactly one JSON object,
///   also when the command failed.
/// - Prompts go to the terminal or to pinentry, never to stdout or stderr.
/// - Everything else goes to stderr, each line with `latchkey: ` in front, in sentences: what happened, then what to do
///   next. `--quiet` leaves only errors.
/// - Colour is for terminals: none in pipes and files, and none where `NO_COLOR` is set.
/// - No secret is printed. Control, format and other invisible characters are replaced by U+FFFD in every line of text,
///   and written as escapes in JSON, so text from a server, a module or a file can't control the terminal.
/// - A result that can't be written is an error. Scripts must not take a full disk for a success.
struct Console: Sendable {
    enum Format: Sendable {
        case text
        case json
    }

    let format: Format
    let isQuiet: Bool
    /// Of results that are text.
    let style = Style(for: STDOUT_FILENO)
    private let errorStyle = Style(for: STDERR_FILENO)

    /// Prints a command's result.
    func show(_ report: some Report) throws {
        switch format {
        case .text where report.secretOutput != nil: try report.secretOutput?.withUnsafeBytes(StandardStreams.write)
        case .text where report.text.isEmpty: break
        case .text: try result(style.printable(report.text(in: style)))
        case .json: try result(report.bareOutput ?? Self.json(report))
        }
    }

    /// Prints text that is a result as it is: help, a completion script.
    func result(_ text: String) throws(KeystoreError) {
        try StandardStreams.write(text.hasSuffix("\n") ? text : text + "\n")
    }

    /// Tells what is going on.
    func say(_ sentence: String) {
        if !isQuiet { write(sentence, .strong) }
    }

    /// Tells what a person has to know to go on, also when told to be quiet.
    func warn(_ sentence: String) {
        write(sentence, .caution)
    }

    /// Tells of an error, in the form that was asked for.
    ///
    /// - Returns: What the process is to end with.
    func fail(_ error: any Error) -> ExitStatus {
        let failure = Failure(error)
        if let usage = failure.usage {
            // The parser's own text, which repeats what it was given, with the usage below it.
            for line in usage.split(separator: "\n", omittingEmptySubsequences: false) {
                FileDescriptors.writeToStandardError(printable(String(line)) + "\n")
            }
        } else {
            write(failure.message, .bad)
            write(failure.recovery, .bad)
        }
        // Where that can't be written, stderr has said it, and the status is a failure's anyway.
        if format == .json, let text = try? Self.json(["error": failure]) { try? result(text) }
        return failure.status
    }

    static func json(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        return escaped(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// JSON without white space, with escapes (RFC 8259 section 7) for all that a terminal would obey or hide.
    private static func escaped(_ json: String) -> String {
        var result = ""
        for scalar in json.unicodeScalars {
            if scalar.isVisible {
                result.unicodeScalars.append(scalar)
            } else {
                for unit in String(scalar).utf16 {
                    let digits = String(unit, radix: 16)
                    result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }
            }
        }
        return result
    }

    private func write(_ sentence: String, _ tone: Style.Tone) {
        FileDescriptors.writeToStandardError("\(errorStyle("latchkey:", tone)) \(printable(sentence))\n")
    }
}

/// Text that may come from outside, as one line of at most 4096 Unicode scalars.
func printable(_ text: String) -> String { String(oneLine: text, limit: 4096) }

/// Unbuffered writing to standard error.
enum FileDescriptors {
    static func writeToStandardError(_ text: String) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(2, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }
}
