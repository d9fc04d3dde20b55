import Latchkey
import LatchkeyCredentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// A store that is put back does not bring the old right back.
@Suite(.softwareTPM)
struct RollbackTests {
    @Test(arguments: [true, false])
    func `a copy of the store from before a PIN change opens no token with the old PIN`(
        isPINChange: Bool
    ) async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn(), security: .pin)
        let copy = try bench.directory.copyOfStore()
        func open() async throws -> Token? {
            let rows = try await RecordStore(directory: copy.path)
            let store = CredentialStore(
                records: try RecordContainer(store: rows, keystore: bench.hardware.keystore(rows)),
                presence: ScriptedPresence(pins: Bench.pin), transport: bench.provider,
                configuration: CredentialConfiguration(clock: bench.clock))
            try await store.open()
            return try await store.credential(id: credential.id)?.token
        }
        #expect(try await open()?.id == credential.id, "the control")
        let (records, _) = try await bench.records()
        if isPINChange {
            try await records.changePIN(
                for: PromptContext(reason: "change the PIN"),
                authorizedBy: ScriptedPresence(pins: Bench.pin, "13579"))
        } else {
            try credential.remove()
            try await records.finishRevocations()
        }
        let error = await #expect(throws: KeystoreError.self) { _ = try await open() }
        #expect(error?.code == (isPINChange ? .wrongProof : .invalidated))
        #expect(error?.underlying?.rawCode == (isPINChange ? 0x98e : 0x18b))
    }
}
