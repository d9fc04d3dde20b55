/// The kinds of keyrings that a sign-in opens.
package enum KeyringKind: UInt8, CaseIterable, Sendable, CustomStringConvertible {
    case gnome = 1
    case kwallet = 2

    /// - Returns: nil for a text that is not the ``description`` of a kind.
    package init?(name: some StringProtocol) {
        guard let kind = Self.allCases.first(where: { $0.description == name }) else { return nil }
        self = kind
    }

    package var description: String {
        switch self {
        case .gnome: "gnome"
        case .kwallet: "kwallet"
        }
    }

    /// The length of the secret in bytes: random bytes, which gnome-keyring gets as hexadecimal
    /// digits, or the key that KWallet derives from the password.
    package var secretLength: Int {
        switch self {
        case .gnome: 32
        case .kwallet: 56
        }
    }
}
