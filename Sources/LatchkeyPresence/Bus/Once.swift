internal import Synchronization

/// A closure that is called at most once; the one that goes uncalled is told that the connection is closed.
final class Once: Sendable {
    private let receive: Mutex<(@Sendable (Bus.Reply) -> Void)?>

    init(_ receive: @escaping @Sendable (Bus.Reply) -> Void) {
        self.receive = Mutex(receive)
    }

    func give(_ reply: Bus.Reply) {
        let receive = receive.withLock { receive in
            defer { receive = nil }
            return receive
        }
        receive?(reply)
    }

    deinit { give(.failure(.closed)) }
}
