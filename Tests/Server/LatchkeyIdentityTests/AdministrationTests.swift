import Foundation
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The commands for administrators, and the audit log, on both storages (`LATCHKEY_TEST_DATABASE`).
@Suite("Administration") struct AdministrationTests {
    @Test func `devices are listed with their last login, and a revoked one cannot log in`()
        async throws
    {
        try await TestServer.run { server in
            let administration = Administration(database: server.services.database)
            let (device, other) = (TestDevice(), TestDevice())
            for device in [device, other] {
                try await server.setUp(device, bearer: server.login().access).success()
            }
            let tokens = try Tokens(await server.authenticate(device).success())
            let listed = try await administration.devices(of: "alice")
            #expect(listed.map(\.kind) == [.biometric, .biometric])
            #expect(listed.count { $0.lastUsedAt != nil } == 1)
            #expect(listed.allSatisfy { $0.username == "alice" && $0.proof == nil })
            #expect(try await administration.devices(of: "bob").isEmpty)
            await #expect(throws: NotFound.self) { try await administration.devices(of: "nobody") }
            #expect(try await administration.devices().count == 2)

            let used = try #require(listed.first { $0.lastUsedAt != nil })
            #expect(try await administration.revoke(id: used.id) == 1)
            #expect(try await administration.revoke(id: used.id) == 0)
            #expect(try await server.userInfo(tokens.access).status == 401)
            #expect(try await server.authenticate(device).status == 400)
            try await server.authenticate(other).success()
            #expect(try await administration.revokeAll(of: "alice") == 1)
            #expect(try await administration.revokeAll(of: "nobody") == nil)
            #expect(try await server.authenticate(other).status == 400)

            let users = try await administration.users()
            #expect(users.map(\.username) == ["alice", "bob"] && users.map(\.devices) == [0, 0])
            let counts = try await administration.counts()
            #expect(
                counts.users == 2 && counts.devices == 0 && counts.grants == 2,
                "the logins in the browser")
        }
    }

    @Test func `each change of users, devices and sessions is in the audit log`() async throws {
        try await TestServer.run { server in
            let log = AuditLog(database: server.services.database)
            func events(after number: Int) async throws -> [String] {
                try await log.entries(after: number, limit: 100).map(\.event)
            }
            #expect(try await events(after: 0) == ["signingKey.added", "user.added", "user.added"])
            let device = TestDevice()
            try await server.setUp(device, bearer: server.login().access).success()
            try await server.authenticate(device).success()
            try await server.authenticate(device).success()
            #expect(
                try await events(after: 3) == [
                    "session.began", "device.added", "session.began", "session.ended",
                    "session.began",
                ])
            #expect(try await server.services.users.setDisabled(true, username: "alice"))
            #expect(try await server.services.users.setDisabled(false, username: "alice"))
            #expect(
                try await events(after: 8) == [
                    "user.disabled", "session.ended", "session.ended", "user.enabled",
                ])
            let entries = try await log.entries(after: 4, limit: 1)
            #expect(
                entries.map(\.event) == ["device.added"] && entries.first?.userID == server.alice.id
            )
        }
    }

    @Test func `in SQLite, entries of the audit log cannot be changed or deleted`() async throws {
        let database = try IdentityDatabase.open(path: nil)
        let users = UserStore(
            database: database,
            hasher: PasswordHasher(cost: .init(logRounds: 4, blockSize: 1, parallelism: 1)),
            clock: database.clock)
        try await users.add(username: "alice", password: TestServer.password)
        for statement: SQLText in ["UPDATE audit_event SET event = 'x'", "DELETE FROM audit_event"]
        {
            await #expect(throws: (any Error).self) {
                try await database.write { try $0.execute(statement) }
            }
        }
        #expect(
            try await AuditLog(database: database).entries(after: 0, limit: 10).map(\.event) == [
                "user.added"
            ])
    }

    @Test func `the commands print lines of JSON`() async throws {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let database = directory.path(of: "identity.sqlite")
        func run(_ arguments: String..., input: String = "") async throws -> SystemProgram.Outcome {
            try await SystemProgram(IdentityProcess.program).result(
                of: arguments + ["--database", database], input: Array(input.utf8))
        }
        #expect(try await run("migrate").status == 0)
        #expect(try await run("users", "add", "carol", input: "a good password\n").status == 0)
        let users = try await run("users", "list")
        #expect(
            users.output.contains(#""username":"carol""#)
                && users.output.split(separator: "\n").count == 1)
        #expect(try await run("check").output.contains(#""users":1"#))
        let bad = directory.path(of: "bad.json")
        try Data("{}".utf8).write(to: URL(filePath: bad))
        #expect(try await run("check", "--config", bad).status != 0)
        #expect(try await run("devices", "list").output.isEmpty)
        #expect(try await run("devices", "revoke").errors.contains("--user NAME"))
        for (arguments, message) in [
            (["devices", "list", "--user", "erin"], "There is no user erin."),
            (["devices", "revoke", "no-such-device"], "There is no device no-such-device."),
            (["devices", "revoke", "--user", "erin"], "There is no user erin."),
            (["users", "disable", "erin"], "There is no user erin."),
            (["signing-keys", "remove", "x"], "There is no signing key x."),
        ] {
            let refused = try await SystemProgram(IdentityProcess.program).result(
                of: arguments + ["--database", database])
            #expect(refused.status == 1 && refused.output.isEmpty)
            #expect(refused.errors == "Error: \(message)\n")
        }
        #expect(try await run("devices", "list", "--user", "carol").status == 0)
        #expect(try await run("devices", "revoke", "--user", "carol").output == "0\n")
        #expect(try await run("users", "disable", "carol").output.isEmpty)
        #expect(
            try await run("approval-keys", "remove", "000b").errors.contains(
                "68 hexadecimal digits"))
        let name = "000b" + String(repeating: "ab", count: 32)
        #expect(
            try await run("approval-keys", "remove", name).errors.contains(
                "There is no approval key"))
        #expect(try await run("signing-keys", "list").output.isEmpty)
        #expect(
            try await run("signing-keys", "rotate").errors.contains(
                "the database contains no signing key"))
        #expect(try await run("audit").output.contains(#""event":"user.added""#))
        let later = try await run("audit", "--after", "1").output
        #expect(later.contains(#""event":"user.disabled""#) && !later.contains("user.added"))
        #expect(try await run("audit", "--after", "1000").output.isEmpty)
    }
}
