import FoundationEssentials
import LatchkeyRelyingParty

/// The users and their passwords.
struct UserStore: Sendable {
    let database: any SQLDatabase
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
    ///   - username: Must satisfy ``isValid(username:)`` and be unique, ignoring the case of ASCII
    ///     letters.
    ///   - password: 8 to 256 bytes.
    @discardableResult
    func add(username: String, password: String, isAnonymous: Bool = false) async throws -> User {
        guard Self.isValid(username: username) else { throw AddError.invalidName }
        guard (8...256).contains(password.utf8.count) else { throw AddError.weakPassword }
        let user = User(
            id: UUID().uuidString.lowercased(), username: username,
            password: try await hasher.hash(password),
            isAnonymous: isAnonymous, isDisabled: false, createdAt: clock.timestamp)
        let inserted = try await database.write {
            try $0.execute(
                """
                INSERT INTO "user" (id, username, password, is_anonymous, is_disabled, created_at)
                VALUES (\(user.id), \(user.username), \(user.password), \(user.isAnonymous), \(user.isDisabled),
                    \(user.createdAt))
                ON CONFLICT DO NOTHING
                """)
        }
        guard inserted == 1 else { throw AddError.nameTaken }
        return user
    }

    /// Whether a user name is valid: 1 to 64 characters, at most 256 bytes, no control characters,
    /// no white space.
    static func isValid(username: String) -> Bool {
        (1...64).contains(username.count) && username.utf8.count <= 256
            && username.unicodeScalars.allSatisfy {
                !$0.properties.isWhitespace && $0.properties.generalCategory != .control
            }
    }

    func user(id: String) async throws -> User? {
        try await database.read { try User.user(id: id, in: $0) }
    }

    func user(named username: String) async throws -> User? {
        try await database.read { try User.user(named: username, in: $0) }
    }

    /// Returns the user if the password is correct and the user is enabled. Takes the same time
    /// without a user.
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
            guard let user = try User.user(named: username, in: database) else { return false }
            try database.execute(
                "UPDATE \"user\" SET is_disabled = \(isDisabled) WHERE id = \(user.id)")
            guard isDisabled else { return true }
            try database.execute("DELETE FROM offline_grant WHERE user_id = \(user.id)")
            try database.execute("DELETE FROM web_session WHERE user_id = \(user.id)")
            try database.execute("DELETE FROM authorization_code WHERE user_id = \(user.id)")
            return true
        }
    }
}

/// A user account.
struct User: Sendable {
    /// A random UUID in lower case: the `sub` of this user's tokens.
    let id: String
    let username: String
    /// A ``PasswordHash`` in its text form.
    let password: String
    let isAnonymous: Bool
    let isDisabled: Bool
    /// Seconds since 1970.
    let createdAt: Double
}

extension User {
    init(_ row: SQLRow) throws {
        self.init(
            id: try row.text("id"), username: try row.text("username"),
            password: try row.text("password"),
            isAnonymous: try row.bool("is_anonymous"), isDisabled: try row.bool("is_disabled"),
            createdAt: try row.real("created_at"))
    }

    static func user(id: String, in database: any SQLConnection) throws -> User? {
        try database.row("SELECT * FROM \"user\" WHERE id = \(id)").map(User.init)
    }

    /// The user of this name, ignoring the case of ASCII letters.
    static func user(named username: String, in database: any SQLConnection) throws -> User? {
        let matches: SQLText =
            switch database.dialect {
            case .sqlite: "username = \(username)"
            case .postgreSQL: "lower(username COLLATE \"C\") = lower(\(username) COLLATE \"C\")"
            }
        return try database.row("SELECT * FROM \"user\" WHERE \(matches)").map(User.init)
    }
}
