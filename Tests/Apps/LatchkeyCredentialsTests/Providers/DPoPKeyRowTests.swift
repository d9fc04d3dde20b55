import Latchkey
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyCredentials

/// The row of a key to which a server binds tokens, which several programs use.
@Suite(.softwareTPM)
struct DPoPKeyRowTests {
    private static let prompt = PromptContext(reason: "test")
    private static let id: RecordID = "test.dpop"

    /// Records the keys that are deleted.
    private struct DeletingKeystore: KeystoreWrapper {
        final class Deleted: Sendable {
            let keys = Mutex<[KeyID]>([])
        }

        let keystore: any Keystore
        let deleted: Deleted

        func delete(
            _ key: HardwareKey, for prompt: PromptContext,
            authorizedBy presence: (any PresenceAuthority)?
        ) async throws(KeystoreError) {
            deleted.keys.withLock { $0.append(key.id) }
            try await keystore.delete(key, for: prompt, authorizedBy: presence)
        }
    }

    private func row(_ records: RecordContainer, of server: String = "a") -> DPoPKeyRow {
        DPoPKeyRow(
            Self.id, kind: "test.dpop", attributes: ["issuer": server], label: nil, in: records)
    }

    private func key(_ row: DPoPKeyRow) async throws -> HardwareKey {
        try #require(
            try await row.storedOrNew(for: Self.prompt, authorizedBy: NobodyPresent()))
    }

    @Test func `the key of another program is neither overwritten nor deleted`() async throws {
        let bench = try Bench()
        let (ours, theirs) = (try await bench.start().records, try await bench.start().records)
        let old = try await key(row(ours))
        #expect(try await key(row(theirs)).id == old.id)
        try theirs.applyNow([.delete(Self.id, ifGeneration: nil)])
        let new = try await key(row(theirs))
        #expect(new.id != old.id)
        #expect(throws: DPoPFailure.self) { try row(ours).insertionNow(of: old) }
        await #expect(throws: DPoPFailure.self) { try await row(ours).insertion(of: old) }
        #expect(try row(ours).deletion(ofKey: old.publicKey.thumbprint) == nil)
        await row(ours).forget(old, for: Self.prompt)
        #expect(try await row(ours).stored(for: Self.prompt)?.id == new.id)
        await row(ours).forget(new, for: Self.prompt)
        #expect(try await row(theirs).stored(for: Self.prompt) == nil)
    }

    @Test func `a removal does not delete the key of a token that is stored meanwhile`()
        async throws
    {
        let bench = try Bench()
        let records = try await bench.start().records
        let key = try await key(row(records))
        let removal = try #require(try row(records).deletion(ofKey: key.publicKey.thumbprint))
        try records.applyNow([row(records).insertionNow(of: key)])
        #expect(throws: keystore(.conflict)) { try records.applyNow([removal.change]) }
        #expect(try await row(records).stored(for: Self.prompt)?.id == key.id)
    }

    @Test func `another server's key is replaced, and deleted from the hardware`() async throws {
        let bench = try Bench()
        let deleted = DeletingKeystore.Deleted()
        let (_, store) = try await bench.records()
        let records = try await bench.records(
            keystore: DeletingKeystore(
                keystore: Hardware.softwareTPM.keystore(store), deleted: deleted)
        ).0
        let first = try await key(row(records, of: "a"))
        #expect(try await row(records, of: "b").stored(for: Self.prompt) == nil)
        let second = try await key(row(records, of: "b"))
        #expect(second.id != first.id && deleted.keys.withLock(\.self) == [first.id])
        #expect(try await row(records, of: "b").stored(for: Self.prompt)?.id == second.id)
    }
}
