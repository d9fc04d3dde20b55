internal import FoundationEssentials
internal import Glibc
public import LatchkeySimulators
internal import Testing

extension TemporaryDirectory {
    /// Writes an executable script into the directory and waits until it can be run.
    ///
    /// Linux runs no file that somebody has open for writing, and a child that another test is just starting has our
    /// descriptors until it has become its own program. A read lease is granted when no writer is left (fcntl(2)).
    ///
    /// - Parameter text: The whole script, with its first line `#!…`.
    /// - Returns: Its path.
    /// - Throws: When it can't be written, or is still open for writing after thirty seconds.
    public func makeScript(_ name: String, _ text: String) throws -> String {
        let path = path(of: name)
        try Data(text.utf8).write(to: URL(filePath: path))
        try #require(chmod(path, 0o700) == 0)
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        // F_SETLEASE (linux/fcntl.h), which Glibc's module leaves out.
        let setLease: Int32 = 1024
        let deadline = ContinuousClock.now + .seconds(180)
        while fcntl(descriptor, setLease, Int32(F_RDLCK)) != 0 {
            try #require(errno == EAGAIN && ContinuousClock.now < deadline)
            usleep(500)
        }
        try #require(fcntl(descriptor, setLease, Int32(F_UNLCK)) == 0)
        return path
    }
}
