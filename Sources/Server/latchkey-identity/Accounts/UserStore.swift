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
    func add(username: String, password: String) async throws -> User {
        guard Self.isValid(username: username) else { throw AddError.invalidName }
        guard (8...256).contains(password.utf8.count) else { throw AddError.weakPassword }
        let user = User(
            id: UUID().uuidString.lowercased(), username: username,
            password: try await hasher.hash(password),
            createdAt: clock.timestamp)
        let inserted = try await database.write {
            try $0.execute(
                """
                INSERT INTO "user" (id, username, name_key, password, created_at)
                VALUES (\(user.id), \(user.username), \(User.key(username)), \(user.password),
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

    /// Returns the user if the password is correct. Takes the same time without a user.
    ///
    /// - Throws: `PasswordHasher.Busy`
    func authenticate(_ user: User?, password: String) async throws -> User? {
        try await hasher.matches(password, stored: user?.password) ? user : nil
    }
}

/// A user account.
struct User: Sendable {
    /// A random UUID in lower case: the `sub` of this user's tokens.
    let id: String
    let username: String
    /// A ``PasswordHash`` in its text form.
    let password: String
    /// Seconds since 1970.
    let createdAt: Double
}

extension User {
    init(_ row: SQLRow) throws {
        self.init(
            id: try row.text("id"), username: try row.text("username"),
            password: try row.text("password"),
            createdAt: try row.real("created_at"))
    }

    /// The name with ASCII letters in lower case. No two users have the same.
    static func key(_ username: String) -> String {
        let bytes = username.utf8.map {
            (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    static func user(id: String, in database: any SQLConnection) throws -> User? {
        try database.row("SELECT * FROM \"user\" WHERE id = \(id)").map(User.init)
    }

    /// The user of this name, ignoring the case of ASCII letters.
    static func user(named username: String, in database: any SQLConnection) throws -> User? {
        try database.row("SELECT * FROM \"user\" WHERE name_key = \(key(username))").map(User.init)
    }
}
