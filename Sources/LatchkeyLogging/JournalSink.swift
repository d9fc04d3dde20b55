internal import Glibc

/// Takes entries to the journal: by its socket, with all their fields; where that is not there or takes no more, by the
/// stream that systemd has connected to it, as lines.
package final class JournalSink: Sendable {
    private let socketPath: String
    private let descriptor: Int32
    private let fallback: Int32

    /// - Parameters:
    ///   - socketPath: The journal's socket; at most 107 bytes.
    ///   - fallback: A descriptor that is connected to the journal. It stays the caller's.
    package init(socketPath: String, fallback: Int32) {
        self.socketPath = socketPath
        self.fallback = fallback
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    func take(_ entry: JournalEntry, identifier: String) {
        guard !send(entry.datagram(identifier: identifier)) else { return }
        let line = Array(entry.line.utf8)
        // Nothing is left to tell of a failure.
        _ = write(fallback, line, line.count)
    }

    /// The journal may be started anew at any time: each entry finds it by its name.
    private func send(_ datagram: [UInt8]) -> Bool {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let fits = withUnsafeMutableBytes(of: &address.sun_path) { path in
            guard socketPath.utf8.count < path.count else { return false }
            path.copyBytes(from: socketPath.utf8)
            return true
        }
        guard fits, descriptor >= 0 else { return false }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                sendto(
                    descriptor, datagram, datagram.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL),
                    address, socklen_t(MemoryLayout<sockaddr_un>.size)) == datagram.count
            }
        }
    }
}
