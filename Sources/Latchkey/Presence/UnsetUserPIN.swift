/// Room for a user's PIN, as the broker made it: it has a random value, with which the user's own program puts the PIN
/// in its place. The broker never learns the PIN.
package struct UnsetUserPIN: Hashable, Sendable {
    /// The PIN's place in the hardware.
    package var pin: PresenceTerms.UserPIN
    /// The value that is there now.
    package var initialValue: SecretBytes

    /// Room for a PIN, as the broker made it.
    package init(pin: PresenceTerms.UserPIN, initialValue: SecretBytes) {
        self.pin = pin
        self.initialValue = initialValue
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(pin) }
}
