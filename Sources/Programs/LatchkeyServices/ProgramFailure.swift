package import ArgumentParser
package import FoundationEssentials
internal import Latchkey
internal import LatchkeyPresence

/// An error as a program reports it.
package struct ProgramFailure {
    package let status: ExitStatus
    /// The machine-readable code, one word.
    package let code: String
    /// The operation and the cause, one sentence.
    package let message: String
    /// The next step, one sentence.
    package let recovery: String
    /// The argument parser's text for an error in the arguments.
    package let usage: String?
    private var attemptsLeft: Int?
    /// The end of a lockout, if the error is one and the end is known.
    package private(set) var lockedOutUntil: Date?
    private var underlying: UnderlyingError?

    /// - Parameter program: The program's root command.
    package init(_ error: any Error, of program: any ParsableCommand.Type) {
        status = ExitStatus(error)
        switch error {
        case let error as any PackageError:
            (code, message, recovery) = (error.codeName, error.description, error.advice)
            (attemptsLeft, lockedOutUntil) = (error.attemptsLeft, error.lockedOutUntil)
            underlying = error.underlying
            usage = nil
        case let error as MistypedCommand:
            (code, message) = ("usage", Self.hidingNumbers(error.message))
            recovery = "Run ‘\(error.group) --help’ for the commands and options."
            usage = """
                Error: \(message)
                Usage: \(error.usage)
                  See '\(error.group) --help' for more information.
                """
        case let error as BusError:
            (code, message) = ("unavailable", "Could not use the bus: \(error.message).")
            recovery = "Check that D-Bus runs, and that libsystemd0 is installed."
            usage = nil
        case is CancellationError:
            (code, message) = ("cancelled", "Could not finish: the command was cancelled.")
            recovery = "Run the command again."
            usage = nil
        case _ where status == .usage:
            let text = Self.suggesting(program.fullMessage(for: error))
            (code, message) = ("usage", Self.suggesting(program.message(for: error)))
            // The parser names the help of the command: See 'latchkey key sign --help' for more
            // information.
            let help =
                text.firstMatch(of: /See '([^']+)'/).map { String($0.1) }
                ?? "\(program._commandName) --help"
            recovery = "Run ‘\(help)’ for the commands and options."
            usage = text
        default:
            (code, message) = ("failed", "Could not finish: \(error).")
            recovery = "Try again. If the error persists, report it with this message."
            usage = nil
        }
    }
}

/// A word that names no command of its group.
package struct MistypedCommand: Error {
    let message: String
    /// The words of the group, such as `latchkey key`.
    let group: String
    /// The usage line of the group.
    let usage: String

    package init(_ message: String, group: String, usage: String) {
        (self.message, self.group, self.usage) = (message, group, usage)
    }
}

extension ProgramFailure {
    /// The options of every command, which the parser does not suggest.
    private static let commonOptions = ["--help", "--version"]

    /// The text without quoted arguments of four or more digits, which may be a PIN.
    private static func hidingNumbers(_ text: String) -> String {
        text.replacing(#/(?<open>['‘])[0-9]{4,}(?<close>['’])/#) { "\($0.open)…\($0.close)" }
    }

    /// The parser's text about an unknown option, with the option that is near.
    private static func suggesting(_ text: String) -> String {
        let text = hidingNumbers(text)
        guard !text.contains("Did you mean"),
            let match = text.firstMatch(of: /Unknown option '(--[^']+)'/),
            let near = Spelling.nearest(to: String(match.1), among: commonOptions)
        else { return text }
        return text.replacing(match.0, with: "\(match.0). Did you mean '\(near)'?")
    }
}

extension ProgramFailure: Encodable {
    private enum CodingKeys: CodingKey {
        case code, message, recovery, attemptsLeft, lockedOutUntil, underlying
    }

    private enum UnderlyingKeys: CodingKey {
        case layer, code, text
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(code, forKey: .code)
        try container.encode(message, forKey: .message)
        try container.encode(recovery, forKey: .recovery)
        try container.encodeIfPresent(attemptsLeft, forKey: .attemptsLeft)
        try container.encodeIfPresent(lockedOutUntil, forKey: .lockedOutUntil)
        guard let underlying else { return }
        var details = container.nestedContainer(keyedBy: UnderlyingKeys.self, forKey: .underlying)
        try details.encode(underlying.layer, forKey: .layer)
        try details.encodeIfPresent(underlying.rawCode, forKey: .code)
        try details.encode(underlying.text, forKey: .text)
    }
}
