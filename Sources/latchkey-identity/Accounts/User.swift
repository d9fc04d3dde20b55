import FoundationEssentials
import GRDB

/// Somebody who can log in.
struct User: Sendable, Codable, FetchableRecord, PersistableRecord {
    static let databaseTableName = "user"

    /// A random UUID in lower case: the `sub` of this user's tokens.
    let id: String
    let username: String
    /// A ``PasswordHash`` in its text form.
    let password: String
    let isAnonymous: Bool
    let isDisabled: Bool
    /// Seconds since 1970.
    let createdAt: Double

    enum CodingKeys: String, CodingKey {
        case id, username, password
        case isAnonymous = "is_anonymous"
        case isDisabled = "is_disabled"
        case createdAt = "created_at"
    }
}
