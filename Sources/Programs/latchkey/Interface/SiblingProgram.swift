import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPlatform
import LatchkeyServices

/// Another program of Latchkey, in the folder of this one.
enum SiblingProgram {
    /// Replaces the program of this process. The environment, the standard streams and inherited
    /// descriptors stay the same.
    ///
    /// A program that other users can write or replace does not start.
    ///
    /// - Parameter package: The Debian package of the program.
    /// - Returns: The reason why the program did not start.
    static func replaceThisProcess(with name: String, _ arguments: [String], package: String)
        -> KeystoreError
    {
        guard
            let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"),
            let slash = own.lastIndex(of: "/")
        else {
            return KeystoreError(
                code: .unavailable, reason: "/proc/self/exe cannot be read",
                recovery: "Mount /proc, or run \(name).")
        }
        let path = String(own[...slash]) + name
        guard access(path, F_OK) == 0 else { return unavailable(path, errno, package: package) }
        do throws(KeystoreError) {
            try TrustedFile.check(path)
        } catch {
            return KeystoreError(
                code: .refused, reason: "\(path) is not trusted: \(error.reason)",
                recovery:
                    "Run latchkey in a directory in which only you and root can write, such as /usr/bin."
            )
        }
        let words: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) } + [nil]
        defer { words.forEach { free($0) } }
        // This thread may block signals that the program needs.
        var (none, previous) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &previous)
        StandardStreams.shareOutput()
        execv(path, words)
        let number = errno
        pthread_sigmask(SIG_SETMASK, &previous, nil)
        return unavailable(path, number, package: package)
    }

    private static func unavailable(_ path: String, _ number: Int32, package: String)
        -> KeystoreError
    {
        KeystoreError(
            code: .unavailable,
            reason: "\(path) cannot be started: \(SystemError(number))",
            recovery: "Install the package \(package).")
    }
}
