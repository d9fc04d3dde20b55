internal import Glibc
package import Latchkey

/// The check of a file that only the user and root may write. The configuration file must pass it,
/// because it names the programs to run and the servers that receive secrets, and a program that
/// uses the hardware's keys.
package enum TrustedFile {
    /// Checks the file and its directory. A user who can write the directory can replace the file.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput`.
    package static func check(_ path: String) throws(KeystoreError) {
        let directory = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        // The directory first: once it is safe, the file cannot be replaced after its check.
        for checked in [directory, path] {
            var status = stat()
            guard stat(checked, &status) == 0 else {
                throw refusal(
                    path, "the owner of \(checked) cannot be read",
                    recovery: "Check the owner and mode of \(checked).")
            }
            guard status.st_uid == geteuid() || status.st_uid == 0 else {
                throw refusal(
                    path, "\(checked) belongs to another user",
                    recovery:
                        "Remove it, or take ownership of it (chown) if you trust its contents.")
            }
            guard status.st_mode & 0o022 == 0 else {
                throw refusal(
                    path, "other users can write \(checked)",
                    recovery: "Check the file's contents, then run: chmod go-w '\(checked)'"
                )
            }
        }
    }

    private static func refusal(_ path: String, _ reason: String, recovery: String)
        -> KeystoreError
    {
        KeystoreError(
            operation: "read \(path)", code: .invalidInput, reason: reason, recovery: recovery)
    }
}
