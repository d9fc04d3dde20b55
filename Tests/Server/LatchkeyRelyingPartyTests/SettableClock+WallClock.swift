import LatchkeyRelyingParty
import LatchkeyTestSupport

extension SettableClock {
    var clock: WallClock { WallClock { self.now } }
}
