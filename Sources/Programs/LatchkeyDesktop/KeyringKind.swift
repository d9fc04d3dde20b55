/// The kinds of keyrings that a sign-in opens, and the record without one.
package enum KeyringKind: UInt8, CaseIterable, Sendable, CustomStringConvertible {
    case gnome = 1
    case kwallet = 2
    /// The user has no keyring. The record's secret opens nothing: that the login password opens it
    /// proves the PIN under which it is sealed, as for the others.
    case withoutKeyring = 3

    /// - Returns: nil for a text that is not the ``description`` of a kind.
    package init?(name: some StringProtocol) {
        guard let kind = Self.allCases.first(where: { $0.description == name }) else { return nil }
        self = kind
    }

    package var description: String {
        switch self {
        case .gnome: "gnome"
        case .kwallet: "kwallet"
        case .withoutKeyring: "none"
        }
    }

    /// The length of the secret in bytes: random bytes, which gnome-keyring gets as hexadecimal
    /// digits; the key that KWallet derives from the password; random bytes without a keyring.
    package var secretLength: Int {
        switch self {
        case .gnome, .withoutKeyring: 32
        case .kwallet: 56
        }
    }
}
