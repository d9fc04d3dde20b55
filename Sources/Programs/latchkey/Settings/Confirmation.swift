import ArgumentParser
import Latchkey
import LatchkeyPresence

/// The confirmation of a command that deletes a key or a secret of which Latchkey keeps no copy.
///
/// At a terminal, each of them asks, unless the user passed `--yes`. Without a terminal, each
/// requires `--yes`.
enum Confirmation {
    /// The help of `--yes`.
    static let help: ArgumentHelp = "Do not ask for confirmation."
    /// The last sentence about a loss: copies of the store that the user made are out of reach.
    static let copies = "Latchkey keeps no copy. A backup of the store may have one."

    /// Asks the user at the terminal to confirm the deletion.
    ///
    /// - Parameters:
    ///   - loss: What will be deleted, in sentences: it has not happened yet.
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
