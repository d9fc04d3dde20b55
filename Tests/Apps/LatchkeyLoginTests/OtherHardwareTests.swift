import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Authgear's SDK document: the last user and the enabled state are "not included in backup, nor
/// transferred to new device".
@Suite(.softwareTPM) struct OtherHardwareTests {
    /// The container in a copy of the bench's store, on another TPM.
    private func withCopy(
        of bench: Bench, _ body: (Container, RecordContainer, CountingKeystore) async throws -> Void
    ) async throws {
        let home = try TemporaryDirectory()
        try FileManager.default.copyItem(
            atPath: bench.directory.path + "/default", toPath: home.path + "/default")
        try await SoftwareTPM.withRunning { other in
            let store = try await RecordStore(directory: home.path)
            let keystore = CountingKeystore(TPMKeystore(tcti: other.tcti, anchors: store))
            let records = try RecordContainer(store: store, keystore: keystore)
            let container = try Container(
                ContainerConfiguration(
                    endpoint: FakeIdentity.address, clientID: "app", policy: .pin),
                records: records,
                presence: ScriptedPresence(Array(repeating: .pin(Bench.pin), count: 8)),
                browser: bench.browser,
                transport: bench.identity)
            try await body(container, records, keystore)
        }
    }

    private func enabled(_ bench: Bench) async throws -> Container {
        let container = try await bench.start()
        try await container.authorize()
        try await container.enableBiometric()
        return container
    }

    @Test func `a copied store shows no user, no key and no session on another TPM`() async throws {
        try await Bench.with { bench in
            let home = try await enabled(bench)
            try await withCopy(of: bench) { container, records, keystore in
                #expect(try await container.getLastUserID() == nil)
                #expect(try await !container.isBiometricEnabled())
                #expect(try await container.sessionState == .noSession)
                #expect(try await container.listBiometricKeys().isEmpty)
                let status = try await ContainerStatus(of: records)
                #expect(
                    status.key == nil && status.lastUserID == nil
                        && status.sessionState == .noSession)
                #expect(keystore.calls.isEmpty, "nothing is opened")
            }
            #expect(try await home.isBiometricEnabled())
            let restarted = try await bench.start()
            #expect(try await restarted.lastUserID == "user-a")
            #expect(try await restarted.sessionState == .authenticated)
        }
    }

    @Test func `if the TPM does not answer, the container shows the stored state`() async throws {
        try await Bench.with { bench in
            _ = try await enabled(bench)
            let container = try await bench.start(keystore: AbsentKeystore())
            #expect(try await container.lastUserID == "user-a")
            #expect(try await container.isBiometricEnabled())
        }
    }

    @Test func `after the first call the state does not use the hardware`() async throws {
        try await Bench.with { bench in
            _ = try await enabled(bench)
            try await withCopy(of: bench) { container, _, keystore in
                _ = try await container.lastUserID
                let calls = keystore.calls
                _ = try await container.lastUserID
                #expect(keystore.calls == calls)
            }
        }
    }

    @Test func `the error of authorize() names startOver(), after which authorize() works`()
        async throws
    {
        try await Bench.with { bench in
            _ = try await enabled(bench)
            try await withCopy(of: bench) { container, records, _ in
                await #expect(throws: keystore(.wrongDevice)) {
                    try await container.enableBiometric()
                }
                let error = await #expect(throws: KeystoreError.self) {
                    try await container.authorize()
                }
                #expect(error?.code == .wrongDevice)
                #expect(
                    error?.recovery.contains("RecordStore.startOver()") == true,
                    "\(error?.recovery ?? "")")
                let archive = try await records.store.startOver()
                #expect(FileManager.default.fileExists(atPath: archive))
                _ = try await container.authorize()
                try await container.enableBiometric()
                #expect(try await container.isBiometricEnabled())
                #expect(try await container.authenticateBiometric().userInfo.userID == "user-a")
            }
        }
    }
}
