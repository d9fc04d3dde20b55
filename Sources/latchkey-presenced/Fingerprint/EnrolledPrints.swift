import Crypto
import FoundationEssentials
import Glibc

/// fprintd's own files of a user's fingers. fprintd says nothing when they change, and tells names only: a finger that
/// was deleted and enrolled anew has the same.
struct EnrolledPrints: Sendable {
    static let defaultDirectory = "/var/lib/fprint"
    /// More files than ten fingers on any number of readers that a machine has.
    private static let maximumFiles = 500

    let directory: String

    /// A digest over the names, contents and times of change of a user's prints, 32 bytes.
    ///
    /// - Returns: nil when there are none here, or they can't be read.
    func digest(of user: String) -> Data? {
        guard !user.isEmpty, !user.contains("/"), user != ".", user != ".." else { return nil }
        let root = "\(directory)/\(user)"
        var hash = SHA256()
        var isEmpty = true
        guard let names = try? FileManager.default.subpathsOfDirectory(atPath: root), names.count <= Self.maximumFiles
        else { return nil }
        for name in names.sorted() {
            var status = stat()
            guard lstat("\(root)/\(name)", &status) == 0 else { return nil }
            guard status.st_mode & S_IFMT == S_IFREG else { continue }
            guard let bytes = FileManager.default.contents(atPath: "\(root)/\(name)") else { return nil }
            isEmpty = false
            hash.update(data: Array(name.utf8) + [0])
            for number in [UInt64(status.st_ino), UInt64(status.st_mtim.tv_sec), UInt64(status.st_mtim.tv_nsec)] {
                withUnsafeBytes(of: number.bigEndian) { hash.update(bufferPointer: $0) }
            }
            hash.update(data: Data(SHA256.hash(data: bytes)))
        }
        return isEmpty ? nil : Data(hash.finalize())
    }
}
