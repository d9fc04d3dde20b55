import Foundation
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import RawDatabase
import Testing

/// An attacker who can write the store's file puts record keys with known values there.
@Suite(.softwareTPM)
struct ClassPlantingTests {
    private let prompt = PromptContext(reason: "test the classes")
    private let gated = ProtectionClass(name: "gated", policy: .pin)

    @Test func `a class with user verification is created only with its first record`() async throws
    {
        let directory = try TemporaryDirectory()
        let container = try await program(directory)
        let presence = ScriptedPresence(pins: "2468", "2468")
        await #expect(throws: notFound) {
            try await container.open(gated, for: prompt, authorizedBy: presence)
        }
        await #expect(throws: notFound) {
            try await container.prove(gated, for: prompt, authorizedBy: presence)
        }
        #expect(presence.requests.isEmpty)
        let rows = try queue(directory).read { try Row.fetchAll($0, sql: "SELECT * FROM classKey") }
        #expect(rows.isEmpty)
    }

    @Test func `a record key that existed before the first record accepts no record`() async throws
    {
        let directory = try TemporaryDirectory()
        let program = try await program(directory)
        // The attacker's key, created with a record that the attacker then deletes.
        let attacker = try await self.program(directory)
        try await attacker.apply(
            [put("mine", [0]), .delete("mine", ifGeneration: nil)], for: prompt,
            authorizedBy: ScriptedPresence(pins: "2468"))
        let presence = ScriptedPresence(pins: "2468", "2468", "2468")
        await #expect(throws: damaged) {
            try await program.apply([put("a", [7])], for: prompt, authorizedBy: presence)
        }
        #expect(try await program.metadata("a") == nil)
        // Also with the attacker's record under it.
        try await attacker.apply([put("mine", [0])], for: prompt)
        await #expect(throws: damaged) {
            try await program.apply([put("a", [7])], for: prompt, authorizedBy: presence)
        }
    }

    @Test func `a replaced record key accepts no record in place of an existing one`() async throws
    {
        let (directory, elsewhere) = (try TemporaryDirectory(), try TemporaryDirectory())
        let program = try await program(directory)
        let presence = ScriptedPresence(pins: "2468", "2468")
        try await program.apply([put("a", [7])], for: prompt, authorizedBy: presence)
        try await program.apply([put("b", [8])], for: prompt)
        // An attacker's key of the same name and policy, created by the same TPM.
        let attacker = try await self.program(elsewhere)
        try await attacker.apply([put("a", [0])], for: prompt, authorizedBy: presence)
        let planted = try await queue(elsewhere).read {
            try Data.fetchOne($0, sql: "SELECT sealed FROM classKey WHERE name = 'gated'")
        }
        let queue = try queue(directory)
        try await queue.write {
            try $0.execute(
                sql: "UPDATE classKey SET sealed = ? WHERE name = 'gated'", arguments: [planted])
        }
        let before = try queue.read { try Row.fetchAll($0, sql: "SELECT * FROM record") }
        let next = try await self.program(directory)
        for id in ["a", "c"] {
            await #expect(throws: damaged) {
                try await next.apply(
                    [put(id, [9])], for: prompt,
                    authorizedBy: ScriptedPresence(pins: "2468", "2468"))
            }
        }
        #expect(try queue.read { try Row.fetchAll($0, sql: "SELECT * FROM record") } == before)
    }

    @Test
    func `a program adds to a class that it created, and any program replaces existing records`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let program = try await program(directory)
        let presence = ScriptedPresence(pins: "2468", "2468")
        try await program.apply([put("a", [7])], for: prompt, authorizedBy: presence)
        try await program.apply([put("b", [8])], for: prompt)
        let next = try await self.program(directory)
        try await next.apply([put("b", [9])], for: prompt, authorizedBy: presence)
        #expect(try await next.read("b", for: prompt)?.payload == SecretBytes([9]))
        await #expect(throws: damaged) { try await next.apply([put("c", [9])], for: prompt) }
    }

    @Test func `the classes of a container have one PIN`() async throws {
        let directory = try TemporaryDirectory()
        let container = try await program(directory)
        let presence = ScriptedPresence(pins: "2468", "1111", "2468")
        try await container.apply([put("a", [7])], for: prompt, authorizedBy: presence)
        let other = ProtectionClass(name: "other", policy: .pin)
        let put = RecordChange.put(
            Record(id: "b", kind: "note", protection: other), payload: SecretBytes([8]),
            ifGeneration: 0)
        await #expect(throws: wrongProof) {
            try await container.apply([put], for: prompt, authorizedBy: presence)
        }
        try await container.apply([put], for: prompt, authorizedBy: presence)
        #expect(presence.requests.map(\.purpose) == [.new, .current, .current])
        let change = ScriptedPresence(pins: "2468", "13579")
        #expect(try await container.changePIN(for: prompt, authorizedBy: change) == 2)
    }

    private func put(_ id: String, _ bytes: [UInt8]) -> RecordChange {
        .put(
            Record(id: RecordID(rawValue: id), kind: "note", protection: gated),
            payload: SecretBytes(bytes),
            ifGeneration: nil)
    }

    private func queue(_ directory: TemporaryDirectory) throws -> DatabaseQueue {
        try DatabaseQueue.raw(at: directory.path(of: "default/latchkey.sqlite"))
    }

    /// A program that has just started.
    private func program(_ directory: TemporaryDirectory) async throws -> RecordContainer {
        let store = try await RecordStore(directory: directory.path)
        return try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
    }
}
