import Latchkey
import LatchkeyPresence

/// Fingers through the machine's presence broker, PINs at the terminal: both are offered, the first proof is taken.
func presenceWithFingers() -> any PresenceAuthority {
    BrokeredPresence(
        pins: TerminalPresence(),
        broker: SystemPresenceBroker { _, text in print(text) })
}
