import Foundation
import GRDB
import Latchkey
import LatchkeyRelyingParty
import LatchkeyTestSupport
import RawDatabase
import Testing

@testable import latchkey_identity

/// A database of a server version without the locker.
@Suite("Locker, older databases") struct LockerMigrationTests {
    /// That version's migrations and data: a user, and a session of each kind.
    private static let schema = """
        CREATE TABLE latchkey_challenge (
            digest BLOB PRIMARY KEY NOT NULL, purpose TEXT NOT NULL, expires_at REAL NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX latchkey_challenge_expiry ON latchkey_challenge (expires_at);
        CREATE TABLE latchkey_device (
            project TEXT NOT NULL, kid TEXT NOT NULL, id TEXT NOT NULL UNIQUE, user_id TEXT NOT NULL,
            jwk TEXT NOT NULL, device_info TEXT NOT NULL, created_at REAL NOT NULL, PRIMARY KEY (project, kid)
        ) STRICT;
        CREATE INDEX latchkey_device_user ON latchkey_device (project, user_id, created_at);
        CREATE TABLE user (
            id TEXT PRIMARY KEY NOT NULL, username TEXT NOT NULL UNIQUE COLLATE NOCASE, password TEXT NOT NULL,
            is_anonymous INTEGER NOT NULL, is_disabled INTEGER NOT NULL, created_at REAL NOT NULL
        ) STRICT;
        CREATE TABLE offline_grant (
            id TEXT PRIMARY KEY NOT NULL, client_id TEXT NOT NULL,
            user_id TEXT NOT NULL REFERENCES user (id) ON DELETE CASCADE, device_id TEXT, scope TEXT NOT NULL,
            amr TEXT, auth_time REAL NOT NULL, expires_at REAL NOT NULL, idle_expires_at REAL NOT NULL, device_info TEXT
        ) STRICT;
        CREATE INDEX offline_grant_device ON offline_grant (device_id);
        CREATE INDEX offline_grant_user ON offline_grant (user_id);
        CREATE TABLE refresh_token (
            digest BLOB PRIMARY KEY NOT NULL,
            grant_id TEXT NOT NULL REFERENCES offline_grant (id) ON DELETE CASCADE, is_used INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX refresh_token_grant ON refresh_token (grant_id);
        CREATE TABLE access_token (
            digest BLOB PRIMARY KEY NOT NULL,
            grant_id TEXT NOT NULL REFERENCES offline_grant (id) ON DELETE CASCADE, expires_at REAL NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX access_token_grant ON access_token (grant_id);
        CREATE INDEX access_token_expiry ON access_token (expires_at);
        CREATE TABLE authorization_code (
            digest BLOB PRIMARY KEY NOT NULL, grant_id TEXT NOT NULL, client_id TEXT NOT NULL,
            user_id TEXT NOT NULL REFERENCES user (id) ON DELETE CASCADE, redirect_uri TEXT NOT NULL,
            code_challenge TEXT NOT NULL, scope TEXT NOT NULL, nonce TEXT, auth_time REAL NOT NULL,
            expires_at REAL NOT NULL, is_used INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE web_session (
            digest BLOB PRIMARY KEY NOT NULL, user_id TEXT NOT NULL REFERENCES user (id) ON DELETE CASCADE,
            auth_time REAL NOT NULL, expires_at REAL NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE secret (name TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL) STRICT;
        CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
        INSERT INTO grdb_migrations VALUES ('latchkey challenges 1'), ('latchkey devices 1'), ('identity 1');
        INSERT INTO user VALUES ('u1', 'alice', 'x', 0, 0, 1);
        INSERT INTO offline_grant VALUES
            ('g1', 'app', 'u1', NULL, 'openid offline_access', NULL, 5, 9e9, 9e9, NULL),
            ('g2', 'app', 'u1', 'd2', 'openid offline_access', 'x_biometric', 6, 9e9, 9e9, '{}'),
            ('g3', 'app', 'u1', NULL, 'openid offline_access', 'hwk pin', 7, 9e9, 9e9, '{}');
        INSERT INTO refresh_token VALUES (x'00', 'g3', 0);
        """

    @Test func `keep all their data`() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(
            path: "identity-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let path = directory.appending(path: "identity.sqlite").path()
        let tokens = [
            "g1": OpaqueToken.bytes(), "g2": OpaqueToken.bytes(), "g3": OpaqueToken.bytes(),
        ]
        try #require(
            FileManager.default.createFile(
                atPath: path, contents: nil, attributes: [.posixPermissions: 0o600]))
        try await DatabaseQueue.raw(at: path).write { database in
            try database.execute(sql: Self.schema)
            for (grant, token) in tokens {
                try database.execute(
                    sql: "INSERT INTO access_token VALUES (?, ?, 9e9)",
                    arguments: [OpaqueToken.digest(token), grant])
            }
        }

        // Twice: the second time all migrations are done.
        for _ in 1...2 {
            let services = try await IdentityServices(
                TestServer.configuration, database: IdentityDatabase.open(path: path),
                hasher: PasswordHasher(cost: .init(logRounds: 4, blockSize: 1, parallelism: 1)))
            let browser = try #require(try await services.session(bearer: tokens["g1"])).grant
            #expect(browser.isStrong && browser.enrolmentID == nil && browser.authTime == 5)
            let biometric = try #require(try await services.session(bearer: tokens["g2"])).grant
            #expect(
                biometric.amr == .biometric && biometric.deviceID == "d2" && !biometric.isStrong)

            // The database does not record this session's key, whose removal must end it.
            #expect(try await services.session(bearer: tokens["g3"]) == nil)

            let registry = try #require(services.locker).registry
            let key = LockerTestKey()
            let enrolment = LockerEnrolment(
                userID: "u1", clientID: "app",
                deviceKey: LockerKey(
                    kid: try #require(KeyID(rawValue: key.kid)), publicKey: try key.publicKey),
                info: try #require(DeviceInfo(LockerTestKey.deviceInfo)), createdAt: .now)
            let shares = LevelShares()
            try await registry.add(enrolment, shares: shares, limit: 2)
            #expect(
                try await registry.levelShares(of: enrolment, afterAuthenticationOf: "u1") == shares
            )
        }
    }
}
