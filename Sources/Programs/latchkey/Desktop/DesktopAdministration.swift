import Glibc
import Latchkey
import LatchkeyDesktop
import LatchkeyJOSE
import LatchkeyPlatform

/// What root does with the sign-in of another user.
enum DesktopAdministration {
    /// Ends the sign-in with PIN and finger.
    ///
    /// - Parameter user: The name of an account, or a number, also of an account that was deleted.
    /// - Throws: `CommonError`: `refused` for other users than root, `notFound` for an unknown name.
    static func endSignIn(of user: String) async throws(CommonError) -> BriefReport {
        guard geteuid() == 0 else {
            throw CommonError(
                code: .refused, reason: "only the administrator can end the sign-in of a user",
                recovery: "Run the same command with sudo.")
        }
        guard let number = Account.userID(user), number != 0 else {
            throw .notFound(
                "there is no user ‘\(printable(user))’",
                recovery: "Check the name. For a deleted account, give its number.")
        }
        let socket = SignInSocket(user: number)
        try await BlockingThread().run { () throws(CommonError) in try socket.end() }
        return BriefReport(
            ["ended": .bool(true), "uid": .number(Double(number))],
            text: "The PIN and finger of the user \(printable(user)) no longer sign in.")
    }
}
