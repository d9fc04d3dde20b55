import FoundationEssentials
import LatchkeyRelyingParty
import Synchronization

/// A clock that only the test advances.
final class TestClock: Sendable {
    private let time: Mutex<Date>

    init() {
        // In whole seconds, so that a test can hit a limit exactly.
        time = Mutex(Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down)))
    }

    var clock: WallClock { WallClock { self.time.withLock { $0 } } }
    var seconds: Int { clock.seconds }

    func advance(by seconds: Double) {
        time.withLock { $0 += seconds }
    }
}
