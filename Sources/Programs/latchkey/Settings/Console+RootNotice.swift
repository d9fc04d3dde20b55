import FoundationEssentials
import Glibc
import Synchronization

extension Console {
    private static let hasNamedRoot = Mutex(false)

    private static func isFirst() -> Bool {
        hasNamedRoot.withLock { hasNamed in
            defer { hasNamed = true }
            return !hasNamed
        }
    }

    /// Warns once if root uses its own store and files in place of those of the user who started
    /// sudo.
    func warnOfSudo(environment: [String: String] = ProcessInfo.processInfo.environment) {
        guard geteuid() == 0, let user = environment["SUDO_USER"], !user.isEmpty, user != "root",
            Self.isFirst()
        else { return }
        warn(
            "This command uses the store and the files of root, not those of ‘\(user)’. Run it without sudo for ‘\(user)’."
        )
    }
}
