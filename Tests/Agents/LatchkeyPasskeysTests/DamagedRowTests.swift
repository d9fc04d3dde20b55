import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyPasskeys

/// A row that is not a passkey, as another program could write it.
@Suite(.softwareTPM) struct DamagedRowTests {
    @Test func `a damaged row is reported, does not affect other passkeys, and can be deleted`()
        async throws
    {
        try await Rig.with { rig in
            _ = try await rig.ask(Rig.registration())
            let damaged = Record(id: RecordID(rawValue: "passkey.broken"), kind: PasskeyStore.kind)
            try rig.records.applyNow([.put(damaged, payload: nil, ifGeneration: 0)])
            let reports = Reports()
            let store = PasskeyStore(records: rig.records) { reports.add($0) }
            #expect(try store.list().count == 1)
            let report = try #require(reports.all.first)
            #expect(reports.all.count == 1 && report.code == .damaged)
            #expect(
                report.recovery.contains("broken")
                    && report.recoveryAction.actions == [.deletePasskey])
            _ = try await rig.ask(Rig.assertion())
            _ = try await rig.ask(Rig.registration(user: "eve"))
            #expect(try store.count() == 3)
            #expect(try store.damagedIDs() == ["broken"])
            try store.delete(damaged: ["broken"])
            #expect(try store.damagedIDs().isEmpty)
            #expect(try store.list().count == 2)
            #expect(try store.count() == 2)
            #expect(reports.all.count == 1)
        }
    }

    @Test func `a passkey of a newer version is reported, and is not damaged`() async throws {
        try await Rig.with { rig in
            _ = try await rig.ask(Rig.registration())
            let newer = Record(id: RecordID(rawValue: "passkey.newer"), kind: PasskeyStore.kind)
            try rig.records.applyNow([
                .put(newer, payload: SecretBytes(Data(#"{"id":{}}"#.utf8)), ifGeneration: 0)
            ])
            let reports = Reports()
            let store = PasskeyStore(records: rig.records) { reports.add($0) }
            #expect(try store.list().count == 1)
            #expect(reports.all.map(\.code) == [.unsupported])
            #expect(reports.all.first?.recoveryAction.actions.isEmpty == true)
            #expect(try store.damagedIDs().isEmpty)
            _ = try await rig.ask(Rig.assertion())
        }
    }

    @Test func `a store that is not open is an error, not damage`() async throws {
        try await Rig.with { rig in
            _ = try await rig.ask(Rig.registration())
            await rig.records.lock()
            let error = #expect(throws: KeystoreError.self) { try rig.store.list() }
            #expect(error?.code == .wrongState)
        }
    }
}

/// The reported errors.
private final class Reports: Sendable {
    private let errors = Mutex<[KeystoreError]>([])

    var all: [KeystoreError] { errors.withLock { $0 } }

    func add(_ error: KeystoreError) { errors.withLock { $0.append(error) } }
}
