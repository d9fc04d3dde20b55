internal import Dispatch
internal import Glibc
internal import Synchronization

/// One thread that looks at all watches every few milliseconds while any call is being made, and sleeps otherwise.
///
/// A timer per call would cost a signature more than the deadline is worth; this costs it one atomic load.
final class Watchdog: Sendable {
    static let shared = Watchdog()

    /// How often it looks, in microseconds: a deadline is kept to this.
    private static let period: UInt32 = 20_000
    /// How many looks at idle threads in a row send it to sleep.
    private static let patience = 50

    private struct Attended {
        weak var watch: CallWatch?
    }

    private let attended = Mutex<[Attended]>([])
    private let isAsleep = Atomic(false)
    private let alarm = DispatchSemaphore(value: 0)

    private init() {
        OperatingSystemThread.start { self.watch() }
    }

    func attend(_ watch: CallWatch) {
        attended.withLock { attended in
            attended.removeAll { $0.watch == nil }
            attended.append(Attended(watch: watch))
        }
    }

    func wake() {
        guard isAsleep.load(ordering: .sequentiallyConsistent),
            isAsleep.exchange(false, ordering: .sequentiallyConsistent)
        else { return }
        alarm.signal()
    }

    private func watch() {
        var idleLooks = 0
        while true {
            if look() {
                idleLooks = 0
            } else {
                idleLooks += 1
            }
            if idleLooks > Self.patience {
                isAsleep.store(true, ordering: .sequentiallyConsistent)
                // A call that began before the flag was up did not ring: look once more before sleeping.
                if look() {
                    wake()
                }
                alarm.wait()
                idleLooks = 0
            } else {
                usleep(Self.period)
            }
        }
    }

    /// - Returns: whether any call is being made.
    private func look() -> Bool {
        let watches = attended.withLock { $0.compactMap(\.watch) }
        let now = ContinuousClock.now
        for watch in watches { watch.check(at: now) }
        return watches.contains { $0.isCalling }
    }
}
