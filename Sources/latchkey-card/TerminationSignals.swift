import Dispatch
import Glibc

/// SIGTERM and SIGINT, waited for instead of died of.
struct TerminationSignals: Sendable {
    /// Blocks the signals for this thread and all that it starts from now on.
    init() {
        var set = Self.set
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Waits for the next one, on a thread that may block.
    func next() async {
        await withCheckedContinuation { continuation in
            DispatchQueue(label: "latchkey.card.signals").async {
                var set = Self.set
                var signal: Int32 = 0
                sigwait(&set, &signal)
                continuation.resume()
            }
        }
    }

    private static var set: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, SIGTERM)
        sigaddset(&set, SIGINT)
        return set
    }
}
