import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import TPM2
import TPM2TCTI
import Testing

/// Archiving and emptying a store.
@Suite(.softwareTPM)
struct StartOverTests {
    private let prompt = PromptContext(reason: "test the store")
    private let note: RecordChange = .put(
        Record(id: "a", kind: "note"), payload: SecretBytes("secret".utf8), ifGeneration: nil)

    private func container(_ directory: String, _ tcti: String? = nil) async throws
        -> RecordContainer
    {
        let store = try await RecordStore(directory: directory)
        let tcti = try tcti ?? SoftwareTPM.current.tcti
        return try RecordContainer(store: store, keystore: TPMKeystore(tcti: tcti, anchors: store))
    }

    @Test func `the archive contains the old store, and the store is empty and can be used`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let records = try await container(directory.path)
        try await records.apply([note], for: prompt)
        let archive = try await records.store.startOver()
        #expect(
            archive.hasPrefix(directory.path + "/default/latchkey-")
                && archive.hasSuffix("Z.sqlite"), "\(archive)")
        let mode =
            try FileManager.default.attributesOfItem(atPath: archive)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(try await records.store.contents().isEmpty)
        #expect(try await records.metadata("a") == nil)
        try await records.apply([note], for: prompt)
        #expect(try await records.read("a", for: prompt)?.payload == SecretBytes("secret".utf8))

        let restored = try TemporaryDirectory()
        try FileManager.default.createDirectory(
            atPath: restored.path + "/default", withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        try FileManager.default.copyItem(
            atPath: archive, toPath: restored.path + "/default/latchkey.sqlite")
        let old = try await container(restored.path)
        #expect(try await old.read("a", for: prompt)?.payload == SecretBytes("secret".utf8))
    }

    @Test func `two archives of one second have two names`() async throws {
        let directory = try TemporaryDirectory()
        let store = try await RecordStore(
            directory: directory.path, now: { Date(timeIntervalSince1970: 1_800_000_000) })
        let archives = [try await store.startOver(), try await store.startOver()]
        #expect(Set(archives).count == 2)
        #expect(archives.allSatisfy(FileManager.default.fileExists(atPath:)), "\(archives)")
    }

    @Test func `another program gets one conflict, and writes nothing with the old keys`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let other = try await container(directory.path)
        try await other.apply([note], for: prompt)
        let records = try await container(directory.path)
        try await records.store.startOver()
        // This creates a new key for the same class.
        try await records.apply([note], for: prompt)

        let error = await #expect(throws: KeystoreError.self) {
            try await other.apply([note], for: prompt)
        }
        #expect(error?.code == .conflict)
        #expect(try await other.read("a", for: prompt)?.payload == SecretBytes("secret".utf8))
        try await other.apply([note], for: prompt)
        await records.lock()
        #expect(try await records.read("a", for: prompt)?.payload == SecretBytes("secret".utf8))
    }

    @Test func `a program that only reads gets one conflict`() async throws {
        let directory = try TemporaryDirectory()
        let other = try await container(directory.path)
        try await other.apply([note], for: prompt)
        try await RecordStore(directory: directory.path).startOver()
        await #expect(throws: KeystoreError.conflict("")) { try await other.metadata("a") }
        #expect(try await other.metadata("a") == nil)
    }

    @Test func `an archive that cannot be written changes nothing`() async throws {
        let directory = try TemporaryDirectory()
        let store = try await RecordStore(
            directory: directory.path, now: { Date(timeIntervalSince1970: 1_800_000_000) })
        let records = try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
        try await records.apply([note], for: prompt)
        let folder = directory.path + "/default/"
        let names = [""] + (2...100).map { "-\($0)" }
        for name in names {
            try Data().write(to: URL(filePath: folder + "latchkey-20270115T080000Z\(name).sqlite"))
        }
        let error = await #expect(throws: KeystoreError.self) { try await store.startOver() }
        #expect(error?.code == .unavailable)
        #expect(try await records.read("a", for: prompt)?.payload == SecretBytes("secret".utf8))
    }

    @Test func `the TPM is queried once for its storage root key`() async throws {
        let directory = try TemporaryDirectory()
        try await container(directory.path).apply([note], for: prompt)
        let other = try await SoftwareTPM()
        for (tcti, isForeign) in [(try SoftwareTPM.current.tcti, false), (other.tcti, true)] {
            let connections = Mutex(0)
            let store = try await RecordStore(directory: directory.path)
            let keystore = TPMKeystore(anchors: store) { () throws(TPMError) in
                connections.withLock { $0 += 1 }
                return try TCTIConnection(tcti)
            }
            for _ in 0..<3 {
                let records = try RecordContainer(store: store, keystore: keystore)
                #expect(try await records.isForeign() == isForeign)
            }
            #expect(connections.withLock { $0 } == 1)
        }
    }

    @Test func `records of hardware that does not answer are not foreign`() async throws {
        let directory = try TemporaryDirectory()
        try await container(directory.path).apply([note], for: prompt)
        let absent = try await container(directory.path, "swtpm:path=/nonexistent")
        #expect(try await !absent.isForeign())
    }
}
