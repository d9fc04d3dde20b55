import FoundationEssentials
import LatchkeyRelyingParty
import LatchkeyTestSupport

extension SettableClock {
    /// A clock that is stopped at a whole second, so that a test can reach a limit exactly.
    static func atWholeSecond() -> SettableClock {
        SettableClock(
            stoppedAt: Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down)))
    }

    var clock: WallClock { WallClock { self.now } }
    var seconds: Int { clock.seconds }
}
