internal import Glibc

/// What is at the path of one of OpenSSH's files. A program of the user can put anything there.
enum SSHFile {
    case absent
    /// It cannot be read, is too long, or is not a regular file.
    case unreadable
    case text(String)

    /// Reads a file without waiting, also if it is a FIFO.
    static func read(_ path: String, maximumBytes: Int) -> SSHFile {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else {
            return errno == ENOENT || errno == ENOTDIR ? .absent : .unreadable
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
            status.st_size <= maximumBytes
        else { return .unreadable }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while bytes.count <= maximumBytes {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return .unreadable }
            guard count > 0 else { return .text(String(decoding: bytes, as: UTF8.self)) }
            bytes += buffer[..<count]
        }
        return .unreadable
    }
}
