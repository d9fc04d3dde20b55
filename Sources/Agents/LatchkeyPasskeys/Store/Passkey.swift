package import FoundationEssentials
package import Latchkey

/// A credential of one account at one site.
package struct Passkey: Hashable, Sendable, Codable, Identifiable {
    /// The length of a credential ID.
    package static let idBytes = 32

    /// The credential ID: 32 random bytes.
    package let id: Data
    /// The site, for example `example.com` (relying party ID).
    package let rpID: String
    /// The site's name for people, as the site states it.
    package let rpName: String?
    /// The account, as the site identifies it, 1 to 64 bytes.
    package let userID: Data
    /// The account's name, as the site states it, for example an e-mail address.
    package let userName: String?
    /// The user's name, as the site states it.
    package let displayName: String?
    /// The level of `credProtect`, 1 to 3.
    package let protection: Int
    /// Whether the site asked for a discoverable credential, which is found without a list of
    /// credential IDs. Other credentials, for example OpenSSH's keys, are only found by their IDs.
    package let isDiscoverable: Bool
    /// The key that signs.
    package let key: HardwareKey
    /// The key for `hmac-secret` (PRF), if the site asked for it.
    package let macKey: SealedSecret?
    /// The user's own name for the passkey.
    package internal(set) var label: String?
    /// When the passkey was created, in whole seconds.
    package var createdAt: Date { key.createdAt }

    /// The account for people: the first of name, display name and identifier.
    package var accountName: String { Self.accountName([userName, displayName], userID: userID) }

    static func accountName(_ names: [String?], userID: Data) -> String {
        let name = names.lazy.compactMap(\.self).first { !$0.isEmpty }
        return name.map { String(oneLine: $0, limit: 64) } ?? Base64URL.encode(userID)
    }

    /// Whether this passkey replaces an earlier one: both are discoverable, for the same account at
    /// the same site.
    func replaces(_ earlier: Passkey) -> Bool {
        isDiscoverable && earlier.isDiscoverable && rpID == earlier.rpID && userID == earlier.userID
    }
}
