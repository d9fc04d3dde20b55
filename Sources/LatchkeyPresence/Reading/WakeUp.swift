internal import Glibc

/// A pipe that wakes a thread which waits in `poll`.
final class WakeUp: Sendable {
    /// The byte that says: the task was cancelled. Every other byte is a signal's number.
    static let cancelled: UInt8 = 0

    let readEnd: Int32
    let writeEnd: Int32

    init() {
        var ends: [Int32] = [-1, -1]
        // Without descriptors left both stay -1, which `poll` passes over: the deadline still holds.
        if pipe(&ends) == 0 {
            for end in ends {
                _ = fcntl(end, F_SETFD, FD_CLOEXEC)
                _ = fcntl(end, F_SETFL, O_NONBLOCK)
            }
        }
        (readEnd, writeEnd) = (ends[0], ends[1])
    }

    func wake(_ byte: UInt8) {
        var byte = byte
        _ = write(writeEnd, &byte, 1)
    }

    deinit {
        close(readEnd)
        close(writeEnd)
    }
}
