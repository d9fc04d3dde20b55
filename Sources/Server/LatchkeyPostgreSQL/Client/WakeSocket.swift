internal import Glibc
internal import LatchkeyRelyingParty

/// A pair of sockets that ends a `poll`. It holds at most one byte that matters.
final class WakeSocket: Sendable {
    /// The descriptor to poll.
    let descriptor: Int32
    private let writer: Int32

    init() throws {
        var ends: [Int32] = [-1, -1]
        let type = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        guard socketpair(AF_UNIX, Int32(type), 0, &ends) == 0 else {
            throw SQLFailure(.unavailable, "the process has no more file descriptors")
        }
        (descriptor, writer) = (ends[0], ends[1])
    }

    deinit {
        close(descriptor)
        close(writer)
    }

    func wake() {
        var byte: UInt8 = 0
        _ = write(writer, &byte, 1)
    }

    func clear() {
        var bytes: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0]
        while read(descriptor, &bytes, bytes.count) > 0 {}
    }
}
