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
/// - No secret is ever printed, and nothing from elsewhere can move the cursor: control characters come out as `?`.
struct Console: Sendable {
    enum Format: Sendable {
        case text
        case json
    }

    let format: Format
    let isQuiet: Bool

    /// Prints a command's result.
    func show(_ report: some Report) throws {
        switch format {
        case .text where report.secretOutput != nil: try report.secretOutput?.withUnsafeBytes(StandardStreams.write)
        case .text where report.text.isEmpty: break
        case .text: result(report.text)
        case .json:
            if let bare = report.bareOutput { result(bare) } else { result(try Self.json(report)) }
        }
    }

    /// Prints text that is a result as it is: help, a completion script.
    func result(_ text: String) {
        print(text.hasSuffix("\n") ? String(text.dropLast()) : text)
    }

    /// Tells what is going on.
    func say(_ sentence: String) {
        if !isQuiet { write(sentence) }
    }

    /// Tells what a person has to know to go on, also when told to be quiet.
    func warn(_ sentence: String) {
        write(sentence)
    }

    /// Tells of an error, in the form that was asked for.
    ///
    /// - Returns: What the process is to end with.
    func fail(_ error: any Error) -> ExitStatus {
        let failure = Failure(error)
        if let usage = failure.usage {
            // The parser's own text, with the usage below it.
            FileDescriptors.writeToStandardError(usage + "\n")
        } else {
            write(failure.message)
            write(failure.recovery)
        }
        if format == .json, let text = try? Self.json(["error": failure]) { result(text) }
        return failure.status
    }

    static func json(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    private func write(_ sentence: String) {
        FileDescriptors.writeToStandardError("latchkey: \(printable(sentence))\n")
    }
}

/// The text with every control character but the line feed as `?`.
func printable(_ text: String) -> String {
    String(
        String.UnicodeScalarView(
            text.unicodeScalars.map { scalar in
                scalar.properties.generalCategory == .control && scalar != "\n" ? "?" : scalar
            }))
}

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
