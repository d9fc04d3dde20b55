import Latchkey
import LatchkeyPresence

/// Prompts at the terminal if there is one, otherwise with pinentry. `fd:3` and `file:/run/pins`
/// are for scripts.
func presence(named source: String?, environment: [String: String]) throws -> any PresenceAuthority
{
    try PINSource(named: source).authority(environment: environment)
}
