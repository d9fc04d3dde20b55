import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyCredentials
import LatchkeyLocker
import LatchkeyLogin

/// An error of whatever kind, as the tool tells it.
struct Failure {
    let status: ExitStatus
    /// The one word.
    let code: String
    /// What happened, one sentence.
    let message: String
    /// What to do next, one sentence.
    let recovery: String
    var attemptsLeft: Int?
    var lockedOutUntil: Date?
    var underlying: KeystoreError.Underlying?
    /// The argument parser's own text, where it was the arguments.
    var usage: String?

    init(_ error: any Error) {
        switch error {
        case let error as KeystoreError:
            // What this machine refuses, such as a file that others can change, no server has refused.
            status = error.code == .refused ? .failed : ExitStatus(error.code)
            (code, message, recovery) = (error.code.description, error.description, error.recovery)
            (attemptsLeft, lockedOutUntil, underlying) = (error.attemptsLeft, error.lockedOutUntil, error.underlying)
        case let error as LoginError:
            status = ExitStatus(error.code.keystoreCode)
            (code, message, recovery) = (error.code.description, error.description, error.recovery)
            underlying = error.underlying
        case let error as CredentialError:
            status = ExitStatus(error.code.keystoreCode)
            (code, message, recovery) = (error.code.description, error.description, error.recovery)
            underlying = error.underlying
        case let error as ErsteGroupAuthError:
            status = ExitStatus(error.code.keystoreCode)
            (code, message, recovery) = (error.code.description, error.description, error.recovery)
            (attemptsLeft, lockedOutUntil, underlying) = (error.attemptsLeft, error.lockedOutUntil, error.underlying)
        case let error as BackgroundAccessError:
            status = ExitStatus(error.keystoreCode)
            (code, message, recovery) = (error.code.rawValue, error.description, error.cause.recovery)
            underlying = error.cause.underlying
        case let error as ProtectionError:
            status = ExitStatus(error.keystoreCode)
            (code, message, recovery) = (error.code, error.description, error.recoverySuggestion ?? "")
        case is CancellationError:
            status = .cancelled
            (code, message) = ("cancelled", "Could not finish: it was cancelled.")
            recovery = "Start again when you are ready."
        case _ where LatchkeyTool.exitCode(for: error) == .validationFailure:
            status = .usage
            (code, message) = ("usage", LatchkeyTool.message(for: error))
            recovery = "See ‘latchkey help’ for what there is."
            usage = LatchkeyTool.fullMessage(for: error)
        default:
            status = .failed
            (code, message) = ("failed", "Could not finish: \(error).")
            recovery = "Try again; if it stays, report it with this message."
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

/// A command has told everything itself and only wants the process to end with this.
struct ReportedFailure: Error {
    let status: ExitStatus
}
