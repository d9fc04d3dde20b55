import Latchkey
import LatchkeyPresence

/// Asks at the terminal if there is one, else by pinentry; `fd:3` or `file:/run/pins` are for scripts.
func presence(named source: String?, environment: [String: String]) throws -> any PresenceAuthority {
    try PINSource(named: source).authority(environment: environment)
}
