import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyServices

/// The exit status of the process. Scripts depend on the numbers: their meanings do not change.
enum ExitStatus: Int32, Sendable {
    case done = 0
    case failed = 1
    case usage = 2
    case cancelled = 3
    case wrongProof = 4
    case lockedOut = 5
    case notFound = 6
    case unavailable = 7
    case damaged = 8
    case refused = 9
    case conflict = 10

    /// The exit status for an error code.
    init(_ code: CommonErrorCode) { self = Self(rawValue: code.exitStatus) ?? .failed }
}

/// An error as the tool reports it.
struct Failure {
    let status: ExitStatus
    /// The machine-readable code, one word.
    let code: String
    /// The operation and the cause, one sentence.
    let message: String
    /// The next step, one sentence.
    let recovery: String
    var attemptsLeft: Int?
    var lockedOutUntil: Date?
    var underlying: UnderlyingError?
    /// The argument parser's text for an error in the arguments.
    var usage: String?

    init(_ error: any Error) {
        switch error {
        case let error as any ReportableError:
            // Exit status 9 is for servers. With this code the tool itself refuses, for example a
            // file that others can write.
            let isRefusedHere = (error as? KeystoreError)?.code == .refused
            status = isRefusedHere ? .failed : ExitStatus(error.commonCode)
            (code, message, recovery) = (error.codeName, error.description, error.advice)
            (attemptsLeft, lockedOutUntil, underlying) = (
                error.attemptsLeft, error.lockedOutUntil, error.underlying
            )
        case is CancellationError:
            status = .cancelled
            (code, message) = ("cancelled", "Could not finish: the command was cancelled.")
            recovery = "Run the command again."
        case _ where LatchkeyTool.exitCode(for: error) == .validationFailure:
            status = .usage
            (code, message) = ("usage", LatchkeyTool.message(for: error))
            let text = LatchkeyTool.fullMessage(for: error)
            // The parser names the help of the command: See 'latchkey key sign --help' for more
            // information.
            let help =
                text.firstMatch(of: /See '(latchkey [^']+)'/).map { String($0.1) }
                ?? "latchkey help"
            recovery = "Run ‘\(help)’ for the commands and options."
            usage = text
        default:
            status = .failed
            (code, message) = ("failed", "Could not finish: \(error).")
            recovery = "Try again. If the error persists, report it with this message."
        }
    }
}

extension Failure: Encodable {
    private enum CodingKeys: String, CodingKey {
        case code, message, recovery, attemptsLeft, lockedOutUntil, underlying
    }

    private enum UnderlyingKeys: String, CodingKey {
        case layer, code, text
    }

    func encode(to encoder: any Encoder) throws {
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

/// Ends the process with a status after the command has printed its own report.
struct ReportedFailure: Error {
    let status: ExitStatus
}
