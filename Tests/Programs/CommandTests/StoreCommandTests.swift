import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// A store on another TPM, and `latchkey store reset`.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct StoreCommandTests {
    @Test func `on another TPM, errors name store reset, which archives the store`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        #expect(try await machine.run("vault", "store", "app", input: "secret").status == 0)
        #expect(try await machine.run("key", "create", "--policy", "none").status == 0)
        try await SoftwareTPM.withRunning { other in
            var elsewhere = machine
            elsewhere.environment["LATCHKEY_TCTI"] = other.tcti
            let refused = try await elsewhere.run("vault", "show", "app", "--json")
            #expect(refused.status == 8)
            // The step that keeps everything is the first one.
            let recovery = try refused.json()["error"]?["recovery"]?.string ?? ""
            #expect(recovery.contains(/--store.*latchkey store reset/), "\(recovery)")
            #expect(!recovery.contains("startOver"), "\(recovery)")
            let status = try await elsewhere.run("status")
            #expect(
                status.errors.contains("‘latchkey store reset’ archives them"), "\(status.errors)")

            let undecided = try await elsewhere.run("store", "reset")
            #expect(undecided.status == 2)
            #expect(undecided.errors.contains("--yes"), "\(undecided.errors)")
            #expect(try await machine.run("vault", "show", "app").output == "secret")

            let aside = elsewhere.directory.path(of: "aside")
            #expect(
                try await elsewhere.run("--store", aside, "vault", "store", "app", input: "x")
                    .status
                    == 0)
            let reset = try await elsewhere.run("store", "reset", "--yes", "--json")
            #expect(reset.status == 0, "\(reset.errors)")
            let archive = try #require(reset.json()["archive"]?.string)
            #expect(FileManager.default.fileExists(atPath: archive))
            #expect(try await elsewhere.run("vault", "store", "app", input: "new").status == 0)
            #expect(try await elsewhere.run("vault", "show", "app").output == "new")
        }
        #expect(try await machine.run("vault", "show", "app").status == 8)
    }

    @Test func `the files of a damaged store are renamed`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        #expect(try await machine.run("vault", "store", "app", input: "secret").status == 0)
        let damage = Data(
            "not a database, but long enough for a header ".utf8
                + [UInt8](repeating: 7, count: 4096))
        try damage.write(to: URL(filePath: machine.databasePath))
        #expect(try await machine.run("vault", "show", "app").status == 8)
        let reset = try await machine.run("store", "reset", "--yes", "--json")
        #expect(reset.status == 0, "\(reset.errors)")
        let archive = try #require(reset.json()["archive"]?.string)
        #expect(try Data(contentsOf: URL(filePath: archive)) == damage)
        #expect(try await machine.run("vault", "store", "app", input: "new").status == 0)
    }

    @Test func `a missing store is not created`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let reset = try await machine.run("store", "reset", "--yes")
        #expect(reset.status == 6)
        #expect(!FileManager.default.fileExists(atPath: machine.databasePath))
    }
}
