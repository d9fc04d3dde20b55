import FoundationEssentials
import GRDB
import LatchkeyRelyingParty

/// The stored grants, tokens and authorization codes.
struct GrantStore: Sendable {
    let database: any DatabaseWriter
    let clock: WallClock
    let random: RandomSource

    /// The user and grant of a valid access token.
    struct Session: Sendable {
        let user: User
        let grant: Grant
    }

    /// The session of an access token; nil if it is expired, revoked or unknown, or the user is disabled.
    func session(accessToken: String) async throws -> Session? {
        let now = clock.now.timeIntervalSince1970
        return try await database.read { database in
            guard
                let grant = try Grant.fetchOne(
                    database,
                    sql: """
                        SELECT offline_grant.* FROM offline_grant JOIN access_token ON grant_id = id
                        WHERE digest = ? AND access_token.expires_at > ? AND offline_grant.expires_at > ?
                        """,
                    arguments: [OpaqueToken.digest(accessToken), now, now]),
                let user = try User.fetchOne(database, key: grant.userID), !user.isDisabled
            else { return nil }
            return Session(user: user, grant: grant)
        }
    }

    /// Stores a new grant and its first tokens, and revokes the grants of the same device.
    ///
    /// - Returns: False if its code was used already, or its enrolment or easy-access key was deleted.
    func insert(_ grant: Grant, tokens: TokenResponse, from code: AuthorizationCode? = nil) async throws -> Bool {
        let now = clock.now.timeIntervalSince1970
        return try await database.write { database in
            if let code {
                try database.execute(
                    sql: "UPDATE authorization_code SET is_used = 1 WHERE digest = ? AND is_used = 0",
                    arguments: [code.digest])
                guard database.changesCount == 1 else {
                    try Self.revoke(grantID: code.grantID, in: database)
                    return false
                }
            }
            if let enrolmentID = grant.enrolmentID {
                guard
                    try Bool.fetchOne(
                        database, sql: "SELECT EXISTS (SELECT 1 FROM latchkey_locker_enrolment WHERE id = ?)",
                        arguments: [enrolmentID]) == true
                else { return false }
            }
            if let kid = grant.easyAccessKeyID {
                guard
                    try Bool.fetchOne(
                        database,
                        sql: """
                            SELECT EXISTS
                                (SELECT 1 FROM latchkey_locker_easy_access_key WHERE enrolment_id = ? AND kid = ?)
                            """,
                        arguments: [grant.enrolmentID, kid]) == true
                else { return false }
            }
            if let deviceID = grant.deviceID {
                try database.execute(sql: "DELETE FROM offline_grant WHERE device_id = ?", arguments: [deviceID])
            }
            try Self.deleteExpired(before: now, in: database)
            try grant.insert(database)
            try Self.insert(tokens, of: grant.id, now: now, in: database)
            return true
        }
    }

    /// The state of a refresh token.
    enum Refreshable: Sendable {
        case grant(Grant, User)
        /// The token was replaced before. Either this use or the use of its successor is by an attacker.
        case reused(grantID: String)
        case unknown
    }

    func refreshable(_ refreshToken: String) async throws -> Refreshable {
        let now = clock.now.timeIntervalSince1970
        return try await database.read { database in
            guard
                let row = try Row.fetchOne(
                    database, sql: "SELECT grant_id, is_used FROM refresh_token WHERE digest = ?",
                    arguments: [OpaqueToken.digest(refreshToken)])
            else { return .unknown }
            let grantID: String = row["grant_id"]
            if row["is_used"] as Bool { return .reused(grantID: grantID) }
            guard
                let grant = try Grant.fetchOne(database, key: grantID), grant.expiresAt > now,
                grant.idleExpiresAt > now,
                let user = try User.fetchOne(database, key: grant.userID), !user.isDisabled
            else { return .unknown }
            return .grant(grant, user)
        }
    }

    /// Stores the tokens of a refresh. A new refresh token replaces `refreshToken`.
    ///
    /// - Returns: False if another request used the same refresh token first. The grant is then revoked.
    func refresh(
        _ grant: Grant, replacing refreshToken: String, with tokens: TokenResponse, deviceInfo: String?,
        idleTimeout: Int
    ) async throws -> Bool {
        let now = clock.now.timeIntervalSince1970
        return try await database.write { database in
            try database.execute(
                sql: "UPDATE refresh_token SET is_used = ? WHERE digest = ? AND is_used = 0",
                arguments: [tokens.refreshToken != nil, OpaqueToken.digest(refreshToken)])
            guard database.changesCount == 1 else {
                try Self.revoke(grantID: grant.id, in: database)
                return false
            }
            try database.execute(
                sql: "UPDATE offline_grant SET device_info = ?, idle_expires_at = ? WHERE id = ?",
                arguments: [deviceInfo, now + Double(idleTimeout), grant.id])
            try Self.deleteExpired(before: now, in: database)
            try Self.insert(tokens, of: grant.id, now: now, in: database)
            return true
        }
    }

    /// Ends a grant and all its tokens.
    func revoke(grantID: String) async throws {
        try await database.write { try Self.revoke(grantID: grantID, in: $0) }
    }

    /// Revokes the grant of a refresh token, or an access token alone. Ignores an unknown token.
    func revoke(token: String) async throws {
        let digest = OpaqueToken.digest(token)
        try await database.write { database in
            try database.execute(
                sql: "DELETE FROM offline_grant WHERE id IN (SELECT grant_id FROM refresh_token WHERE digest = ?)",
                arguments: [digest])
            try database.execute(sql: "DELETE FROM access_token WHERE digest = ?", arguments: [digest])
        }
    }

    func insert(_ code: AuthorizationCode) async throws {
        try await database.write { try code.insert($0) }
    }

    /// The code, also if it was used; nil if it is expired or unknown.
    func code(_ text: String) async throws -> AuthorizationCode? {
        let now = clock.now.timeIntervalSince1970
        return try await database.read { database in
            try AuthorizationCode.fetchOne(
                database, sql: "SELECT * FROM authorization_code WHERE digest = ? AND expires_at > ?",
                arguments: [OpaqueToken.digest(text), now])
        }
    }

    private static func revoke(grantID: String, in database: Database) throws {
        try database.execute(sql: "DELETE FROM offline_grant WHERE id = ?", arguments: [grantID])
    }

    private static func insert(_ tokens: TokenResponse, of grantID: String, now: Double, in database: Database) throws {
        try database.execute(
            sql: "INSERT INTO access_token (digest, grant_id, expires_at) VALUES (?, ?, ?)",
            arguments: [OpaqueToken.digest(tokens.accessToken), grantID, now + Double(tokens.expiresIn)])
        if let refreshToken = tokens.refreshToken {
            try database.execute(
                sql: "INSERT INTO refresh_token (digest, grant_id, is_used) VALUES (?, ?, 0)",
                arguments: [OpaqueToken.digest(refreshToken), grantID])
        }
    }

    private static func deleteExpired(before now: Double, in database: Database) throws {
        try database.execute(sql: "DELETE FROM access_token WHERE expires_at <= ?", arguments: [now])
        try database.execute(
            sql: "DELETE FROM offline_grant WHERE expires_at <= ? OR idle_expires_at <= ?", arguments: [now, now])
        try database.execute(sql: "DELETE FROM authorization_code WHERE expires_at <= ?", arguments: [now])
    }
}
