import Foundation
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import RawDatabase
import TPM2
import TPM2TCTI
import Testing

/// Revocable keys and their records, with a crash at each step.
@Suite(.softwareTPM, .requires(program: "tpm2_changeauth"))
struct KeyRevocationTests {
    private let prompt = PromptContext(reason: "test the keys")
    private let digest = MessageDigest(sha256: Array("a message".utf8))

    @Test func `a key is kept until its last record is deleted`() async throws {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        let made = try await key(program)
        #expect(made.key.isRevocable)
        #expect(try await noted(directory) == [false], "it may never be stored")
        try await program.apply([put(made.key)], for: prompt)
        #expect(try await noted(directory).isEmpty)
        let second = Record(id: "app.key", kind: "app", key: made.key)
        try await program.apply(
            [
                .put(second, payload: nil, ifGeneration: 0),
                .delete(RecordID(made.key.id), ifGeneration: nil),
            ],
            for: prompt)
        #expect(try await noted(directory).isEmpty, "another record has it")
        try await sign(keystore, made.key)
        try await program.apply([.delete("app.key", ifGeneration: nil)], for: prompt)
        #expect(try await noted(directory) == [true])
        // The program ends here: the hardware was not called, and the next program calls it.
        try await sign(keystore, made.key)
        try await self.program(directory).0.finishRevocations()
        #expect(try await noted(directory).isEmpty)
        #expect(try indexCount() == 0)
        await #expect(throws: invalidated) { try await sign(keystore, made.key) }
    }

    /// The program deletes a key without the hardware, and uses its ID again.
    @Test func `a due revocation is not overwritten by a new key of the same ID`() async throws {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        let made = try await key(program).key
        try await program.apply([put(made)], for: prompt)
        try await program.apply([.delete(RecordID(made.id), ifGeneration: nil)], for: prompt)
        let again = KeyRequest(id: made.id, policy: .pin, prompt: prompt)
        for revocably in [Revocability.required, .preferred] {
            let error = await #expect(throws: KeystoreError.conflict("")) {
                try await program.createKey(
                    again, revocably: revocably, authorizedBy: ScriptedPresence(pins: "123456"))
            }
            #expect(error?.reason == "an earlier key of this name is not yet revoked")
            #expect(try await noted(directory) == [true])
        }
        // Another key of this ID, which no record names.
        let other = try await keystore.createRevocableKey(
            again, authorizedBy: ScriptedPresence(pins: "123456")
        ) { _ in }
        try await program.discard(other)
        #expect(try await noted(directory) == [true])
        try await program.finishRevocations()
        await #expect(throws: invalidated) { try await sign(keystore, made) }
        #expect(try indexCount() == 0)
        let new = try await program.createKey(
            again, revocably: .required, authorizedBy: ScriptedPresence(pins: "123456"))
        try await program.apply([put(new.key)], for: prompt)
        try await sign(keystore, new.key)
        // Without its record, a discarded key leaves no row.
        try await program.apply([.delete(RecordID(new.key.id), ifGeneration: nil)], for: prompt)
        try await program.discard(new.key)
        #expect(try await noted(directory).isEmpty)
    }

    @Test func `a damaged revocation row does not prevent other revocations`() async throws {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        let made = try await key(program)
        try await program.apply([put(made.key)], for: prompt)
        try await program.apply([.delete(RecordID(made.key.id), ifGeneration: nil)], for: prompt)
        try await DatabaseQueue.raw(at: directory.path(of: "default/latchkey.sqlite")).write {
            database in
            try database.execute(
                sql: "INSERT INTO revocation SELECT container, '!', x'00', TRUE FROM revocation")
        }
        await #expect(throws: damaged) { try await program.finishRevocations() }
        await #expect(throws: invalidated) { try await sign(keystore, made.key) }
        #expect(try indexCount() == 0)
    }

    @Test func `replacing the key of a record revokes the old key`() async throws {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        let (old, new) = (try await key(program), try await key(program))
        for key in [old.key, new.key] {
            try await program.apply(
                [
                    .put(
                        Record(id: "app.key", kind: "app", key: key), payload: nil,
                        ifGeneration: nil)
                ], for: prompt)
        }
        try await program.finishRevocations()
        await #expect(throws: invalidated) { try await sign(keystore, old.key) }
        try await sign(keystore, new.key)
        #expect(try indexCount() == 1)
    }

    @Test func `a key that is created and never stored leaves nothing in the hardware`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let (program, _) = try await program(directory)
        _ = try await key(program)
        #expect(try indexCount() == 1, "the control")
        try await self.program(directory).0.finishRevocations()
        #expect(try indexCount() == 0)
        #expect(try await noted(directory).isEmpty)
    }

    /// Before or after the hardware's work.
    @Test(arguments: CountingKeystore.Side.allCases)
    func `a key whose creation fails leaves nothing in the hardware`(_ side: CountingKeystore.Side)
        async throws
    {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        keystore.fail(at: 0, side)
        await #expect(throws: KeystoreError.self) { _ = try await key(program) }
        #expect(keystore.calls == ["createRevocableKey"])
        #expect(try indexCount() == (side == .after ? 1 : 0))
        try await self.program(directory).0.finishRevocations()
        #expect(try indexCount() == 0)
        #expect(try await noted(directory).isEmpty)
    }

    @Test func `a key that is being created is not revoked, and a revoked one is not stored`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        let (made, lost) = (try await key(program), try await key(program))
        try await self.program(directory).0.finishRevocations()
        try await program.apply([put(made.key)], for: prompt)
        try await sign(keystore, made.key)
        try await program.discard(lost.key)
        await #expect(throws: KeystoreError.conflict("")) {
            try await program.apply([put(lost.key)], for: prompt)
        }
        #expect(try await program.metadata(RecordID(lost.key.id)) == nil)
        #expect(try indexCount() == 1)
    }

    @Test func `hardware that cannot revoke creates an ordinary key with one prompt`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        try await fill(keystore)
        let presence = ScriptedPresence(pins: "123456")
        let full = try await program.createKey(
            KeyRequest(policy: .pin, prompt: prompt), revocably: .preferred, authorizedBy: presence)
        #expect(presence.requests.map(\.purpose) == [.new])
        #expect(!full.key.isRevocable)
        #expect(full.revocabilityRefusal?.code == .unsupported)
        try await program.apply([put(full.key)], for: prompt)
        try await sign(keystore, full.key)
        try await SystemProgram("tpm2_changeauth").require([
            "-T", SoftwareTPM.current.tcti, "-c", "owner", "secret",
        ])
        let made = try await key(program)
        #expect(!made.key.isRevocable)
        try await program.apply([put(made.key)], for: prompt)
        try await sign(keystore, made.key)
        try await program.finishRevocations()
        #expect(try await noted(directory).isEmpty)
    }

    /// The hardware refuses, or an attacker on the bus forges the refusal.
    @Test func `a key that must be revocable is not created without revocation`() async throws {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        _ = try await key(program)
        let faulty = try FaultyTPM(try SoftwareTPM.current)
        let (misled, _) = try await self.program(directory, tcti: faulty.tcti)
        // TPM_RC_NV_SPACE as the response to NV_DefineSpace.
        faulty.arm(.code(0x14b, times: 100), atCommand: TPMCommandCode.nvDefineSpace.rawValue)
        let commands = { faulty.commands.map(TPMCommandCode.init(rawValue:)) }
        func refusal(_ program: RecordContainer) async -> KeystoreError.Code? {
            do {
                _ = try await program.createKey(
                    KeyRequest(policy: .pin, prompt: prompt), revocably: .required,
                    authorizedBy: ScriptedPresence(pins: "123456"))
                return nil
            } catch { return error.code }
        }
        #expect(await refusal(misled) == .unsupported)
        #expect(
            commands().contains(.nvDefineSpace) && !commands().contains(.create),
            "nothing else was made instead")
        let weaker = try await misled.createKey(
            KeyRequest(policy: .pin, prompt: prompt), revocably: .preferred,
            authorizedBy: ScriptedPresence(pins: "123456"))
        #expect(
            !weaker.key.isRevocable && weaker.revocabilityRefusal?.code == .unsupported,
            "the result says so")
        try await fill(keystore)
        #expect(await refusal(program) == .unsupported)
    }

    /// The revocation stays recorded until the TPM has proven that the index is deleted.
    @Test func `a revocation that an attacker on the bus hides stays recorded`() async throws {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        let made = try await key(program)
        try await program.apply([put(made.key)], for: prompt)
        try await program.apply([.delete(RecordID(made.key.id), ifGeneration: nil)], for: prompt)
        let faulty = try FaultyTPM(try SoftwareTPM.current)
        let (misled, _) = try await self.program(directory, tcti: faulty.tcti)
        faulty.arm(.code(0x18b, times: 100), atCommand: TPMCommandCode.nvReadPublic.rawValue)
        await #expect(throws: KeystoreError.self) { try await misled.discard(made.key) }
        await #expect(throws: KeystoreError.self) { try await misled.finishRevocations() }
        #expect(try await misled.hasPendingRevocations)
        try await sign(keystore, made.key)
        try await program.finishRevocations()
        #expect(try await !program.hasPendingRevocations)
        await #expect(throws: invalidated) { try await sign(keystore, made.key) }
    }

    @Test
    func `a change of the container's PIN affects every copy, and is completed after a crash`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let (program, keystore) = try await program(directory)
        let (first, second) = (try await key(program), try await key(program))
        try await program.apply([put(first.key), put(second.key)], for: prompt)
        let changed = ScriptedPresence(pins: "123456", "654321")
        #expect(try await program.changePIN(for: prompt, authorizedBy: changed) == 2)
        for key in [first.key, second.key] {
            await #expect(throws: KeystoreError.self) { try await sign(keystore, key) }
            try await sign(keystore, key, pin: "654321")
        }
    }

    // MARK: -

    private var invalidated: KeystoreError {
        KeystoreError(operation: "", code: .invalidated, reason: "", recovery: "")
    }

    private func put(_ key: HardwareKey) -> RecordChange {
        .put(
            Record(key: key), payload: nil,
            ifGeneration: 0)
    }

    private func key(_ program: RecordContainer) async throws -> PreparedKey {
        try await program.createKey(
            KeyRequest(policy: .pin, prompt: prompt), revocably: .preferred,
            authorizedBy: ScriptedPresence(pins: "123456"))
    }

    private func sign(_ keystore: any Keystore, _ key: HardwareKey, pin: String = "123456")
        async throws
    {
        _ = try await keystore.sign(
            digest, with: key, for: prompt, authorizedBy: ScriptedPresence(pins: pin))
    }

    private func look<R>(_ body: (TPM) throws -> R) throws -> R {
        let connection = try TCTIConnection(try SoftwareTPM.current.tcti)
        defer { connection.close() }
        return try body(TPM(ResubmittingTransport(connection)))
    }

    private static let indices = TPMHandle(rawValue: 0x0180_4d00)

    private func indexCount() throws -> Int {
        try look { try $0.handles(from: Self.indices) }.count { $0.rawValue < 0x0180_4dff }
    }

    /// Uses up the room for indices.
    private func fill(_ keystore: any Keystore) async throws {
        _ = try await keystore.createKey(
            KeyRequest(policy: .none, prompt: prompt), authorizedBy: NobodyPresent())
        try look { tpm in
            var (place, size) = (UInt32(0x0180_6000), UInt16(1024))
            while size >= 1 {
                do throws(TPMError) {
                    try tpm.execute(
                        NVDefineSpace(
                            NVPublicArea(
                                index: TPMHandle(rawValue: place),
                                attributes: [.authRead, .authWrite, .noDA],
                                dataSize: size)))
                    place += 1
                } catch {
                    guard error.responseCode == .nvSpace else { throw error }
                    size /= 2
                }
            }
        }
    }

    /// Whether each recorded revocation is certain.
    private func noted(_ directory: TemporaryDirectory) async throws -> [Bool] {
        try await DatabaseQueue.raw(at: directory.path(of: "default/latchkey.sqlite"))
            .read { try Int.fetchAll($0, sql: "SELECT isDue FROM revocation").map { $0 == 1 } }
    }

    /// A program that has just started.
    private func program(
        _ directory: TemporaryDirectory, tcti: String? = nil
    ) async throws -> (RecordContainer, CountingKeystore) {
        let store = try await RecordStore(directory: directory.path)
        let keystore = CountingKeystore(
            TPMKeystore(tcti: try tcti ?? SoftwareTPM.current.tcti, anchors: store))
        return (try RecordContainer(store: store, keystore: keystore), keystore)
    }
}
