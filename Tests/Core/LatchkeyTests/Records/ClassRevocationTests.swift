import Foundation
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import RawDatabase
import Testing

/// Revocable protection classes, with a crash at each step.
@Suite(.softwareTPM, .requires(program: "tpm2_getcap"))
struct ClassRevocationTests {
    private let prompt = PromptContext(reason: "test the classes")
    private let open = ProtectionClass(name: "open.a", policy: .none)
    private let nobody = NobodyPresent()

    @Test func `no copy opens a dropped class`() async throws {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        try await store(program)
        let sealed = try await stored(directory)
        let copied = try #require(sealed.first)
        #expect(copied.isRevocable)
        #expect(try await keystore.unseal(copied, for: prompt, authorizedBy: nobody).count == 32)
        try await drop(program)
        // The program ends here: the hardware was not called, and the revocation is still recorded.
        #expect(try await noted(directory) == [true])
        #expect(try await keystore.unseal(copied, for: prompt, authorizedBy: nobody).count == 32)
        let (next, other) = try await self.program(directory)
        try await next.finishRevocations()
        #expect(try await noted(directory).isEmpty)
        await #expect(throws: invalidated) {
            _ = try await other.unseal(copied, for: prompt, authorizedBy: nobody)
        }
    }

    /// Before or after the hardware's work.
    @Test(arguments: CountingKeystore.Side.allCases)
    func `a revocation that a crash interrupted is repeated`(_ side: CountingKeystore.Side)
        async throws
    {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        try await store(program)
        let copied = try #require(try await stored(directory).first)
        try await drop(program)
        keystore.fail(at: 0, side)
        await #expect(throws: KeystoreError.self) { try await program.finishRevocations() }
        #expect(try await noted(directory) == [true])
        keystore.clearFailure()
        try await program.finishRevocations()
        #expect(try await noted(directory).isEmpty)
        await #expect(throws: invalidated) {
            _ = try await keystore.unseal(copied, for: prompt, authorizedBy: nobody)
        }
        let calls = keystore.calls.count
        try await program.finishRevocations()
        #expect(keystore.calls.count == calls, "nothing is left to do")
    }

    @Test func `a class that is created and never stored leaves nothing in the hardware`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        _ = try await program.prepare(
            open, revocably: .preferred, for: prompt, authorizedBy: nobody)
        #expect(try await noted(directory) == [false])
        let (next, _) = try await self.program(directory)
        try await next.finishRevocations()
        #expect(try await noted(directory).isEmpty)
        #expect(keystore.calls.contains("sealRevocably"))
    }

    @Test func `a class that is never stored is revoked despite a copy of the lock's descriptor`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let (program, _) = try await program(directory)
        let copies = try await copiesWhilePreparing(program, directory)
        defer { for copy in copies { close(copy) } }
        #expect(!copies.isEmpty)
        try await self.program(directory).0.finishRevocations()
        #expect(try await noted(directory).isEmpty)
    }

    private func copiesWhilePreparing(
        _ program: RecordContainer, _ directory: TemporaryDirectory
    ) async throws -> [Int32] {
        let prepared = try await program.prepare(
            open, revocably: .preferred, for: prompt, authorizedBy: nobody)
        defer { withExtendedLifetime(prepared) {} }
        return try directory.copiesOfLockDescriptors()
    }

    @Test func `a class that is being created is not revoked`() async throws {
        let directory = try TemporaryDirectory()
        let (program, _) = try await program(directory)
        let prepared = try await program.prepare(
            open, revocably: .preferred, for: prompt, authorizedBy: nobody)
        let (next, keystore) = try await self.program(directory)
        try await next.finishRevocations()
        try await program.finishRevocations()
        #expect(try await noted(directory) == [false])
        #expect(keystore.calls.isEmpty)
        try await program.apply([put], classes: [.add(prepared)], for: prompt, authorizedBy: nobody)
        #expect(try await noted(directory).isEmpty)
        #expect(try await program.read("a", for: prompt)?.payload == SecretBytes([7]))
    }

    @Test func `a class that another program revoked is not stored`() async throws {
        let directory = try TemporaryDirectory()
        let (program, _) = try await program(directory)
        let prepared = try await program.prepare(
            open, revocably: .preferred, for: prompt, authorizedBy: nobody)
        try await queue(directory).write {
            try $0.execute(sql: "UPDATE revocation SET isDue = TRUE")
        }
        try await self.program(directory).0.finishRevocations()
        await #expect(throws: KeystoreError.conflict("")) {
            try await program.apply(
                [put], classes: [.add(prepared)], for: prompt, authorizedBy: nobody)
        }
        #expect(try await program.metadata("a") == nil)
    }

    @Test func `a class that cannot be recorded for revocation is not created`() async throws {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        try await queue(directory).write {
            try $0.execute(
                sql:
                    "CREATE TRIGGER full BEFORE INSERT ON revocation BEGIN SELECT RAISE(ABORT, 'full'); END"
            )
        }
        let before = try await tools("tpm2_getcap", ["handles-nv-index"])
        await #expect(throws: KeystoreError.self) {
            _ = try await program.prepare(
                open, revocably: .preferred, for: prompt, authorizedBy: nobody)
        }
        #expect(keystore.calls.last == "sealRevocably")
        #expect(try await tools("tpm2_getcap", ["handles-nv-index"]) == before)
    }

    /// The hardware has created the index, and the program ends before it receives the response.
    @Test func `a class that the hardware has just created leaves nothing in it`() async throws {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        let before = try await tools("tpm2_getcap", ["handles-nv-index"])
        keystore.fail(at: 0, .after)
        await #expect(throws: KeystoreError.self) {
            _ = try await program.prepare(
                open, revocably: .preferred, for: prompt, authorizedBy: nobody)
        }
        #expect(keystore.calls == ["sealRevocably"])
        #expect(try await noted(directory) == [false])
        #expect(
            try await tools("tpm2_getcap", ["handles-nv-index"]) != before,
            "the control: it is there")
        try await self.program(directory).0.finishRevocations()
        #expect(try await noted(directory).isEmpty)
        #expect(try await tools("tpm2_getcap", ["handles-nv-index"]) == before)
    }

    private func tools(_ name: String, _ arguments: [String]) async throws -> String {
        let outcome = try await SystemProgram(name).result(
            of: arguments + ["-T", SoftwareTPM.current.tcti])
        #expect(outcome.isSuccess)
        return outcome.output
    }

    @Test func `containers of one store are revoked separately`() async throws {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        let (other, _) = try await self.program(directory, container: "other")
        try await store(program)
        try await store(other)
        let sealed = try await stored(directory)
        #expect(Set(sealed.map(\.blob)).count == 2)
        try await drop(program)
        try await other.finishRevocations()
        #expect(try await noted(directory) == [true], "the other container's notes are not its own")
        try await program.finishRevocations()
        var opened = 0
        for secret in sealed
        where (try? await keystore.unseal(secret, for: prompt, authorizedBy: nobody)) != nil {
            opened += 1
        }
        #expect(opened == 1)
        let (again, _) = try await self.program(directory, container: "other")
        #expect(try await again.read("a", for: prompt)?.payload == SecretBytes([7]))
    }

    private var invalidated: KeystoreError {
        KeystoreError(operation: "", code: .invalidated, reason: "", recovery: "")
    }

    private var put: RecordChange {
        .put(
            Record(id: "a", kind: "note", protection: open), payload: SecretBytes([7]),
            ifGeneration: nil)
    }

    private func store(_ program: RecordContainer) async throws {
        let prepared = try await program.prepare(
            open, revocably: .preferred, for: prompt, authorizedBy: nobody)
        try await program.apply([put], classes: [.add(prepared)], for: prompt, authorizedBy: nobody)
    }

    private func drop(_ program: RecordContainer) async throws {
        try await program.apply(
            [.delete("a", ifGeneration: nil)], classes: [.drop(prefix: "open.")], for: prompt,
            authorizedBy: nobody)
    }

    /// The sealed keys of the class, as an attacker copies them.
    private func stored(_ directory: TemporaryDirectory) async throws -> [SealedSecret] {
        try await queue(directory).read {
            try Data.fetchAll(
                $0, sql: "SELECT sealed FROM classKey WHERE name = 'open.a' ORDER BY container")
        }.map { try JSONDecoder().decode(SealedSecret.self, from: $0) }
    }

    /// Whether each recorded revocation is certain.
    private func noted(_ directory: TemporaryDirectory) async throws -> [Bool] {
        try await queue(directory).read {
            try Int.fetchAll($0, sql: "SELECT isDue FROM revocation").map { $0 == 1 }
        }
    }

    private func queue(_ directory: TemporaryDirectory) throws -> DatabaseQueue {
        try DatabaseQueue.raw(at: directory.path(of: "default/latchkey.sqlite"))
    }

    /// A program that has just started.
    private func program(
        _ directory: TemporaryDirectory, container: String = "default"
    ) async throws -> (RecordContainer, CountingKeystore) {
        let store = try await RecordStore(directory: directory.path)
        let keystore = CountingKeystore(
            TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: store))
        return (try RecordContainer(name: container, store: store, keystore: keystore), keystore)
    }
}
