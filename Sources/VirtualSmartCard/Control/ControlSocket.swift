internal import Dispatch
internal import Glibc

/// A UNIX socket on which other programs drive a card: one request on a line, one JSON object as the answer.
///
/// ```console
/// $ echo 'touch wait' | socat - UNIX-CONNECT:card.sock
/// {"done":true}
/// ```
///
/// Only its owner may connect (mode 0600). It closes, and its file goes, when the last reference goes.
public final class ControlSocket: Sendable {
    /// Where it listens, at most 107 bytes.
    public let path: String
    private let descriptor: Int32

    /// Why there is no socket.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    /// Opens the socket and answers from then on.
    ///
    /// - Parameter path: At most 107 bytes. A socket that a dead program left there is replaced.
    /// - Throws: ``Failure`` when somebody listens there already, something else is there, or it can't be made.
    public init(path: String, card: VirtualCard) throws(Failure) {
        guard var address = Self.address(of: path) else { throw Failure(description: "\(path) is too long") }
        Self.removeAbandoned(path, &address)
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        // Nobody can connect before listen(2), so that nobody connects before the mode is right.
        guard
            descriptor >= 0, Self.withAddress(&address, { bind(descriptor, $0, $1) }) == 0, chmod(path, 0o600) == 0,
            listen(descriptor, 8) == 0
        else {
            let reason = String(cString: strerror(errno))
            close(descriptor)
            throw Failure(description: "\(path) can't be made: \(reason)")
        }
        self.path = path
        self.descriptor = descriptor
        DispatchQueue(label: "latchkey.card.control").async { Self.accept(on: descriptor, card) }
    }

    deinit {
        unlink(path)
        // The thread that accepts sees the end and closes the descriptor.
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    private static func accept(on descriptor: Int32, _ card: VirtualCard) {
        while true {
            let client = Glibc.accept(descriptor, nil, nil)
            if client < 0, errno == EINTR || errno == ECONNABORTED { continue }
            guard client >= 0 else {
                close(descriptor)
                return
            }
            _ = fcntl(client, F_SETFD, FD_CLOEXEC)
            let connection = StreamSocket(owning: client)
            DispatchQueue.global().async { serve(connection, card) }
        }
    }

    private static func serve(_ connection: StreamSocket, _ card: VirtualCard) {
        var pending: [UInt8] = []
        while let more = connection.receive(atMost: longestLine) {
            pending += more
            while let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: pending[..<end], as: UTF8.self)
                pending.removeSubrange(...end)
                guard let answer = try? ControlAnswer(to: line, card: card).line, connection.send(answer) else {
                    return
                }
            }
            guard pending.count <= longestLine else { return }
        }
    }

    private static let longestLine = 256

    /// Removes a socket on which nobody listens any more.
    private static func removeAbandoned(_ path: String, _ address: inout sockaddr_un) {
        var information = stat()
        guard lstat(path, &information) == 0, information.st_mode & S_IFMT == S_IFSOCK else { return }
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        if withAddress(&address, { connect(descriptor, $0, $1) }) != 0, errno == ECONNREFUSED { unlink(path) }
    }

    private static func address(of path: String) -> sockaddr_un? {
        var address = sockaddr_un()
        let bytes = Array(path.utf8)
        guard !bytes.isEmpty, bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return address
    }

    private static func withAddress(
        _ address: inout sockaddr_un, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}
