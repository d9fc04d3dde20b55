import Latchkey
import LatchkeyPresence

/// Prompts for a fingerprint through the presence broker and for a PIN at the terminal; the first
/// proof counts.
func presenceWithFingers() -> any PresenceAuthority {
    BrokeredPresence(
        pins: TerminalPresence(),
        broker: SystemPresenceBroker { _, text in print(text) })
}
