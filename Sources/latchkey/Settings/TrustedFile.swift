import FoundationEssentials
import Glibc
import Latchkey

/// A file that nobody but its user, or root, can change. What decides on the programs that are run and the servers that
/// get secrets must be in one.
enum TrustedFile {
    /// Checks the file and its directory, in which others could otherwise put another file in its place.
    ///
    /// - Throws: ``KeystoreError`` with code `refused`, saying what to do.
    static func check(_ path: String) throws(KeystoreError) {
        let directory = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        // The directory first: once that is safe, what is seen of the file stays true.
        for place in [directory, path] {
            var status = stat()
            guard stat(place, &status) == 0 else {
                throw refusal(path, "the owner of \(place) can't be found out", "Check the owner and mode of \(place).")
            }
            guard status.st_uid == geteuid() || status.st_uid == 0 else {
                throw refusal(
                    path, "\(place) belongs to another user", "Remove it, or make it yours if you trust what it says.")
            }
            guard status.st_mode & 0o022 == 0 else {
                throw refusal(
                    path, "others can change \(place)", "Check what the file says, then run: chmod go-w '\(place)'")
            }
        }
    }

    private static func refusal(_ path: String, _ reason: String, _ recovery: String) -> KeystoreError {
        KeystoreError(operation: "read \(path)", code: .refused, reason: reason, recovery: recovery)
    }
}
