import FoundationEssentials
import GRDB
import LatchkeyRelyingParty

/// The users and their passwords.
struct UserStore: Sendable {
    let database: any DatabaseWriter
    let hasher: PasswordHasher
    let clock: WallClock

    /// The reason why a user was not added, as a sentence.
    enum AddError: String, Error {
        case nameTaken = "A user with this name exists already."
        case invalidName = "A user name has 1 to 64 characters and no white space."
        case weakPassword = "A password has 8 to 256 bytes."
    }

    /// Adds a user.
    ///
    /// - Parameters:
    ///   - username: Must satisfy ``isValid(username:)`` and be unique, ignoring the case of ASCII letters.
    ///   - password: 8 to 256 bytes.
    @discardableResult
    func add(username: String, password: String, isAnonymous: Bool = false) async throws -> User {
        guard Self.isValid(username: username) else { throw AddError.invalidName }
        guard (8...256).contains(password.utf8.count) else { throw AddError.weakPassword }
        let user = User(
            id: UUID().uuidString.lowercased(), username: username, password: try await hasher.hash(password),
            isAnonymous: isAnonymous, isDisabled: false, createdAt: clock.timestamp)
        do {
            try await database.write { try user.insert($0) }
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_UNIQUE {
            throw AddError.nameTaken
        }
        return user
    }

    /// Whether a user name is valid: 1 to 64 characters, at most 256 bytes, no control characters, no white space.
    static func isValid(username: String) -> Bool {
        (1...64).contains(username.count) && username.utf8.count <= 256
            && username.unicodeScalars.allSatisfy {
                !$0.properties.isWhitespace && $0.properties.generalCategory != .control
            }
    }

    func user(id: String) async throws -> User? {
        try await database.read { try User.fetchOne($0, key: id) }
    }

    func user(named username: String) async throws -> User? {
        try await database.read { try User.filter(Column("username") == username).fetchOne($0) }
    }

    /// Returns the user if the password is correct and the user is enabled. Takes the same time without a user.
    func authenticate(_ user: User?, password: String) async throws -> User? {
        let matches = try await hasher.matches(password, stored: user?.password)
        guard let user, matches, !user.isDisabled else { return nil }
        return user
    }

    /// Enables or disables a user. Disabling also ends the user's sessions.
    ///
    /// - Returns: Whether there is such a user.
    func setDisabled(_ isDisabled: Bool, username: String) async throws -> Bool {
        try await database.write { database in
            guard let user = try User.filter(Column("username") == username).fetchOne(database) else { return false }
            try database.execute(sql: "UPDATE user SET is_disabled = ? WHERE id = ?", arguments: [isDisabled, user.id])
            guard isDisabled else { return true }
            for table in ["offline_grant", "web_session", "authorization_code"] {
                try database.execute(sql: "DELETE FROM \(table) WHERE user_id = ?", arguments: [user.id])
            }
            return true
        }
    }
}

/// A user account.
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
