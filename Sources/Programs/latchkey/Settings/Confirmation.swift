import ArgumentParser
import Latchkey
import LatchkeyPresence

/// The confirmation of a command that deletes objects which its arguments do not name, such as all
/// objects of a container. A command that names its object, such as `key delete ID`, needs none.
enum Confirmation {
    /// The help of `--yes`.
    static let help: ArgumentHelp = "Do not ask for confirmation."

    /// Asks the user at the terminal to confirm the deletion.
    ///
    /// - Parameters:
    ///   - loss: What is deleted, in sentences.
    ///   - isGiven: Whether the user passed `--yes`. If yes, does not ask.
    /// - Throws: ``KeystoreError``: `invalidInput` without a terminal, `cancelled` if the user does
    ///   not confirm.
    static func check(_ loss: String, isGiven: Bool) async throws(KeystoreError) {
        guard !isGiven else { return }
        guard TerminalPresence.isPresent() else {
            throw KeystoreError(
                code: .invalidInput, reason: "there is no terminal for the confirmation",
                recovery: "To run the command without confirmation, add --yes.")
        }
        guard try await TerminalQuestion.isConfirmed(printable(loss)) else {
            throw .cancelled("the deletion was not confirmed")
        }
    }
}
