import Glibc
import Latchkey
import LatchkeyDesktop
import LatchkeyJOSE
import LatchkeyPlatform

/// What root does with the sign-in of another user.
enum DesktopAdministration {
    /// Ends the sign-in with PIN and finger.
    ///
    /// - Parameters:
    ///   - user: The name of an account, or a number, also of an account that was deleted.
    ///   - deletesCopies: Whether the copies of the secret are deleted too, after a confirmation.
    ///   - isConfirmed: Whether the administrator passed `--yes`.
    /// - Throws: `CommonError`: `refused` for other users than root, `notFound` for an unknown name,
    ///   and the errors of ``Confirmation``.
    static func endSignIn(
        of user: String, deletesCopies: Bool, isConfirmed: Bool
    ) async throws -> BriefReport {
        guard geteuid() == 0 else {
            throw CommonError(
                code: .refused, reason: "only the administrator can end the sign-in of a user",
                recovery: "Run the same command with sudo.")
        }
        guard let number = Account.userID(user), number != 0 else {
            throw CommonError.notFound(
                "there is no user ‘\(printable(user))’",
                recovery: "Check the name. For a deleted account, give its number.")
        }
        let (socket, thread) = (SignInSocket(user: number), BlockingThread())
        var text = "The PIN and finger of the user \(printable(user)) no longer sign in."
        let record =
            deletesCopies
            ? try await thread.run { () throws(CommonError) in try socket.status().record } : nil
        if let record {
            try await Confirmation.check(
                "The copies of the secret of the user \(user) will be deleted."
                    + (record.kind == .gnome
                        ? " If the keyring has this secret, only the recovery text opens it then."
                        : ""),
                isGiven: isConfirmed)
            try await thread.run { () throws(CommonError) in
                try socket.delete(generation: record.generation)
            }
            text += " The copies of the secret are deleted."
        } else {
            try await thread.run { () throws(CommonError) in try socket.end() }
        }
        return BriefReport(
            ["ended": .bool(true), "uid": .number(Double(number))], text: text)
    }
}
