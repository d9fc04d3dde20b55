internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// Tries whether a store can be written in a directory.
package enum WriteRehearsal {
    /// More than a new store and its log need.
    private static let byteCount = 131_072

    /// Writes a file as large as a new store, waits until it is on the disk, and removes it.
    ///
    /// - Throws: ``KeystoreError`` with code `unavailable`.
    package static func run(in directory: String) throws(KeystoreError) {
        do throws(SystemError) {
            try write(in: directory)
        } catch {
            throw KeystoreError(
                code: .unavailable, reason: "\(directory) cannot be written: \(error)",
                recovery: Recovery(advice(after: error)))
        }
    }

    /// The next step after a file could not be written.
    static func advice(after error: SystemError?) -> String {
        switch error?.number {
        case ENOSPC?, EDQUOT?: "Free some space, and try again."
        case EROFS?: "The file system is read-only: make it writable, or use another directory."
        default: "Check the owner and the mode of the directory."
        }
    }

    private static func write(in directory: String) throws(SystemError) {
        let path = "\(directory)/.latchkey-\(getpid())-\(UInt32.random(in: .min ... .max))"
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .last }
        defer { close(descriptor) }
        unlink(path)
        try OutputFile.writeAll([UInt8](repeating: 1, count: byteCount), to: descriptor)
        guard fsync(descriptor) == 0 else { throw .last }
    }
}
