import Foundation
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The administrator's commands and the devices of users, on both storages
/// (`LATCHKEY_TEST_DATABASE`).
@Suite("Administration") struct AdministrationTests {
    @Test func `devices are listed with their last login, and a revoked one cannot log in`()
        async throws
    {
        try await TestServer.run { server in
            let devices = try UserDevices(server.services.database)
            let (device, other) = (TestDevice(), TestDevice())
            for device in [device, other] {
                try await server.setUp(device, bearer: server.login().access).success()
            }
            let tokens = try Tokens(await server.authenticate(device).success())
            let listed = try #require(try await devices.lines(of: "alice"))
            #expect(listed.map(\.kind) == [.biometric, .biometric])
            #expect(listed.count { $0.lastUsedAt != nil } == 1)
            #expect(listed.allSatisfy { $0.username == "alice" && $0.proof == nil })
            #expect(try await devices.lines(of: "bob")?.isEmpty == true)
            #expect(try await devices.lines(of: "nobody") == nil)

            let used = try #require(listed.first { $0.lastUsedAt != nil })
            #expect(try await devices.revoke(used.id))
            #expect(try await !devices.revoke(used.id))
            #expect(try await server.userInfo(tokens.access).status == 401)
            #expect(try await server.authenticate(device).status == 400)
            try await server.authenticate(other).success()
            #expect(try await devices.revokeAll(of: "alice") == 1)
            #expect(try await devices.revokeAll(of: "nobody") == nil)
            #expect(try await server.authenticate(other).status == 400)
        }
    }

    @Test func `a revoked enrolment loses its sessions`() async throws {
        try await TestServer.run { server in
            let device = try await server.enrolledDevice()
            let session = try Tokens(await server.easyAccess(device).success())
            let devices = try UserDevices(server.services.database)
            #expect(try await devices.lines(of: "alice")?.map(\.kind) == [.locker])
            #expect(try await devices.revoke(device.id))
            #expect(try await server.userInfo(session.access).status == 401)
            let refused = try await server.easyAccess(device)
            #expect(refused.status == 401, "\(refused)")
        }
    }

    @Test func `the commands print lines of JSON, and say what does not exist`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let database = try await IdentityProcess.storage(in: directory).location
            func run(_ arguments: String..., input: String = "") async throws
                -> SystemProgram.Outcome
            {
                try await SystemProgram(IdentityProcess.program).result(
                    of: arguments + ["--database", database], input: Array(input.utf8))
            }
            let added = try await run("users", "add", "carol", input: "a good password\n")
            #expect(added.status == 0)
            #expect(UUID(uuidString: added.output.split(separator: "\n").joined()) != nil)
            let again = try await run("users", "add", "CAROL", input: "another password\n")
            #expect(
                again.status != 0 && again.errors.contains("A user with this name exists already."))
            let weak = try await run("users", "add", "dave", input: "short\n")
            #expect(weak.status != 0 && weak.errors.contains("8 to 256 bytes"))

            #expect(try await run("devices", "list", "--user", "carol").output.isEmpty)
            #expect(try await run("devices", "revoke").errors.contains("--user NAME"))
            for (arguments, message) in [
                (["list", "--user", "erin"], "There is no user erin."),
                (["revoke", "no-such-device"], "There is no device no-such-device."),
                (["revoke", "--user", "erin"], "There is no user erin."),
            ] {
                let refused = try await SystemProgram(IdentityProcess.program).result(
                    of: ["devices"] + arguments + ["--database", database])
                #expect(refused.status == 1 && refused.output.isEmpty)
                #expect(refused.errors == "Error: \(message)\n")
            }
            #expect(
                try await run("devices", "revoke", "--user", "carol").output
                    == "Removed devices: 0. All sessions of the user ended.\n")
        }
    }
}
