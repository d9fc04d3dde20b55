import Foundation
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import RawDatabase
import Testing

/// A store whose pinned storage root key was deleted while its keys were left.
@Suite(.softwareTPM)
struct DeletedAnchorTests {
    private let prompt = PromptContext(reason: "test the store")

    @Test(arguments: [Revocability.required, .never])
    func `another TPM is not pinned in place of a deleted one`(revocably: Revocability) async throws
    {
        let directory = try TemporaryDirectory()
        let records = try await container(directory, SoftwareTPM.current.tcti)
        let prepared = try await records.createKey(
            KeyRequest(policy: .none, prompt: prompt), revocably: revocably,
            authorizedBy: NobodyPresent())
        let key = prepared.key
        let record = Record(key: key)
        try await records.apply([.put(record, payload: nil, ifGeneration: 0)], for: prompt)
        try await deleteAnchor(directory)

        let other = try await SoftwareTPM()
        let elsewhere = try await container(directory, other.tcti)
        let error = await #expect(throws: KeystoreError.self) {
            try await elsewhere.keystore.createKey(
                KeyRequest(policy: .none, prompt: prompt), authorizedBy: NobodyPresent())
        }
        #expect(error?.code == .wrongDevice)
        #expect(error?.recovery.contains("restore the store from a backup") == true)
        #expect(try await anchor(directory) == nil)
        #expect(
            try await TPMKeystore(tcti: other.tcti, anchors: RecordStore(directory: directory.path))
                .diagnose().pin
                == .different)
        await other.cutPower()

        // The TPM that the stored keys name is pinned again.
        let again = try await container(directory, SoftwareTPM.current.tcti)
        _ = try await again.keystore.sign(
            MessageDigest(sha256: [1]), with: key, for: prompt, authorizedBy: NobodyPresent())
        #expect(try await anchor(directory) != nil)
    }

    @Test func `a record key names the pinned storage root key too`() async throws {
        let directory = try TemporaryDirectory()
        try await container(directory, SoftwareTPM.current.tcti)
            .open(.device, for: prompt, authorizedBy: NobodyPresent())
        try await deleteAnchor(directory)
        let other = try await SoftwareTPM()
        let elsewhere = try await container(directory, other.tcti)
        let error = await #expect(throws: KeystoreError.self) {
            try await elsewhere.keystore.createKey(
                KeyRequest(policy: .none, prompt: prompt), authorizedBy: NobodyPresent())
        }
        #expect(error?.code == .wrongDevice)
        await other.cutPower()
    }

    private func deleteAnchor(_ directory: TemporaryDirectory) async throws {
        try await DatabaseQueue.raw(at: directory.path(of: "default/latchkey.sqlite")).write {
            try $0.execute(sql: "DELETE FROM anchor WHERE name = 'tpm/storage-root'")
            #expect($0.changesCount == 1)
        }
    }

    private func anchor(_ directory: TemporaryDirectory) async throws -> Data? {
        try await RecordStore(directory: directory.path).anchor("tpm/storage-root")
    }

    private func container(_ directory: TemporaryDirectory, _ tcti: String) async throws
        -> RecordContainer
    {
        let store = try await RecordStore(directory: directory.path)
        return try RecordContainer(store: store, keystore: TPMKeystore(tcti: tcti, anchors: store))
    }
}
