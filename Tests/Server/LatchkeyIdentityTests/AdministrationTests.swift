import Foundation
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The administrator's commands and the devices of users, on both storages
/// (`LATCHKEY_TEST_DATABASE`).
@Suite("Administration") struct AdministrationTests {
    @Test func `devices and enrolments are listed`() async throws {
        try await TestServer.run { server in
            let devices = try UserDevices(server.services.database)
            try await server.setUp(TestDevice(), bearer: server.login().access).success()
            let enrolment = try await server.enrolledDevice()
            let listed = try await devices.lines(of: server.alice)
            #expect(listed.map(\.kind) == [.biometric, .locker] && listed[1].id == enrolment.id)
            #expect(listed[0].model == "Linux Test" && listed[0].name == "bench")
            #expect(listed.allSatisfy { $0.username == "alice" && $0.userID == server.alice.id })
            #expect(listed.allSatisfy { $0.proof == nil })
            #expect(try await devices.lines(of: server.bob).isEmpty)
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
            #expect(again.status == 1)
            #expect(again.errors == "Error: A user with this name exists already.\n")
            let weak = try await run("users", "add", "dave", input: "short\n")
            #expect(weak.status == 1)
            #expect(weak.errors == "Error: A password has 8 to 256 bytes.\n")
            let none = try await run("users", "add", "dave")
            #expect(none.status == 1 && none.errors == "Error: Give a password on stdin.\n")

            #expect(try await run("devices", "list", "--user", "carol").output.isEmpty)
            #expect(try await run("devices", "list").errors.contains("--user"))
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
