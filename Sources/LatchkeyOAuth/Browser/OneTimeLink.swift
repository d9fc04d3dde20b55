internal import Latchkey
internal import Synchronization

/// The address that a login's browser is started with. It leads this user's programs to the login page; where the system
/// does not tell whose a program is, it does so once.
///
/// Every user of the machine can read the arguments of a program (proc(5), `/proc/PID/cmdline`), so these must not be
/// worth reading: whoever knew the login page's own address could finish the login as somebody else.
final class OneTimeLink: Sendable {
    /// `/start/` and 43 characters that nobody can guess.
    let path = "/start/" + RandomText.make()
    private let isUsed = Mutex(false)

    func leads(from path: some StringProtocol) -> Bool {
        constantTimeEqual(Array(path.utf8), Array(self.path.utf8))
    }

    /// - Returns: Whether this is the first use.
    func use() -> Bool {
        isUsed.withLock { isUsed in
            defer { isUsed = true }
            return !isUsed
        }
    }
}
