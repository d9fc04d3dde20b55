internal import NIOCore
internal import Synchronization

/// Bounds how many connections are open at once.
final class ConnectionCounter: Sendable {
    private let limit: Int
    private let open = Mutex(0)

    init(limit: Int) {
        self.limit = limit
    }

    /// Counts the connection until it closes.
    ///
    /// - Returns: false when there are too many already.
    func admit(_ channel: any Channel) -> Bool {
        let isAdmitted = open.withLock { open in
            guard open < limit else { return false }
            open += 1
            return true
        }
        if isAdmitted {
            channel.closeFuture.whenComplete { [self] _ in open.withLock { $0 -= 1 } }
        }
        return isAdmitted
    }
}
