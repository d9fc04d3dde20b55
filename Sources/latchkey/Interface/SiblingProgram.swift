import FoundationEssentials
import Glibc
import Latchkey

/// Another program of Latchkey, in the folder of this one.
enum SiblingProgram {
    /// Replaces the program of this process. The environment, the standard streams and inherited descriptors stay the same.
    ///
    /// - Parameter package: The Debian package of the program.
    /// - Returns: The reason why the program did not start.
    static func replaceThisProcess(with name: String, _ arguments: [String], package: String) -> KeystoreError {
        guard let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"),
            let slash = own.lastIndex(of: "/")
        else {
            return KeystoreError(
                code: .unavailable, reason: "/proc/self/exe cannot be read", recovery: "Mount /proc, or run \(name).")
        }
        let path = String(own[...slash]) + name
        let words: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) } + [nil]
        defer { words.forEach { free($0) } }
        // This thread may block signals that the program needs.
        var mask = sigset_t()
        sigemptyset(&mask)
        pthread_sigmask(SIG_SETMASK, &mask, nil)
        execv(path, words)
        let reason = String(cString: strerror(errno))
        return KeystoreError(
            code: .unavailable, reason: "\(path) cannot be started: \(reason)",
            recovery: "Install the package \(package).")
    }
}
