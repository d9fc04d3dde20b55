import Foundation
import GRDB
import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import RawDatabase
import Testing

/// Errors of the hardware and the store comes through unchanged, and nothing is lost by it.
@Suite(.softwareTPM) struct HardwareTests {
    private func enabled(_ bench: Bench) async throws {
        let container = try await bench.start()
        try await container.authorize()
        try await container.enableBiometric()
    }

    private func edit(_ bench: Bench, _ sql: String) async throws {
        let store = try await RecordStore(directory: bench.directory.path)
        try await DatabaseQueue.raw(at: store.path).write { try $0.execute(sql: sql) }
    }

    @Test func `a key on another machine is refused and kept`() async throws {
        try await Bench.with { bench in
            try await enabled(bench)
            try await SoftwareTPM.withRunning { other in
                let store = try await RecordStore(directory: bench.directory.path)
                let presence = ScriptedPresence([])
                let container = try await bench.start(
                    presence: presence, keystore: TPMKeystore(tcti: other.tcti, anchors: store))
                await #expect(throws: keystore(.wrongDevice)) {
                    try await container.authenticateBiometric()
                }
                #expect(presence.requests.isEmpty)
            }
            let home = try await bench.start()
            #expect(try await home.authenticateBiometric().userInfo.userID == "user-a")
        }
    }

    @Test func `an edited owner is damaged, is kept, and can be removed with force`() async throws {
        try await Bench.with { bench in
            try await enabled(bench)
            try await edit(
                bench,
                "UPDATE record SET attributes = replace(attributes, 'user-a', 'user-b') WHERE id = 'login.key'"
            )
            let presence = ScriptedPresence([])
            let container = try await bench.start(presence: presence)
            await #expect(throws: keystore(.damaged)) {
                try await container.authenticateBiometric()
            }
            #expect(presence.requests.isEmpty)
            #expect(try await container.listBiometricKeys().first?.userID == "user-b")
            #expect(try await !container.isBiometricEnabled())
            try await container.disableBiometric(force: true)
            #expect(try await container.listBiometricKeys().first?.userID == nil)
        }
    }

    @Test func `a row that can't be read is not reported as not enabled`() async throws {
        try await Bench.with { bench in
            try await enabled(bench)
            try await edit(bench, "UPDATE record SET attributes = 'x' WHERE id = 'login.key'")
            let container = try await bench.start()
            await #expect(throws: keystore(.damaged)) { try await container.isBiometricEnabled() }
            await #expect(throws: keystore(.damaged)) { try await container.enableBiometric() }
            try await container.logout(force: true)
            #expect(try await !container.isBiometricEnabled())
        }
    }

    @Test func `no token is stored unencrypted`() async throws {
        try await Bench.with { bench in
            try await enabled(bench)
            let token = try #require(await bench.identity.refreshTokens.keys.first)
            let directory = bench.directory.path + "/default"
            for file in try FileManager.default.contentsOfDirectory(atPath: directory) {
                let bytes = try Data(contentsOf: URL(filePath: "\(directory)/\(file)"))
                #expect(bytes.range(of: Data(token.utf8)) == nil, "\(file)")
            }
        }
    }

    @Test func `a PIN changed for the container replaces the old PIN`() async throws {
        try await Bench.with { bench in
            try await enabled(bench)
            let store = try await RecordStore(directory: bench.directory.path)
            let records = try RecordContainer(
                store: store, keystore: TPMKeystore(tcti: bench.tpm.tcti, anchors: store))
            try await records.changePIN(
                for: PromptContext(reason: "change the PIN"),
                authorizedBy: ScriptedPresence(pins: Bench.pin, "97531"))
            let old = try await bench.start(presence: ScriptedPresence(pins: Bench.pin))
            await #expect(throws: keystore(.wrongProof)) { try await old.authenticateBiometric() }
            let new = try await bench.start(presence: ScriptedPresence(pins: "97531"))
            #expect(try await new.authenticateBiometric().userInfo.userID == "user-a")
        }
    }

    @Test func `availability depends on the hardware and the policy`() async throws {
        try await Bench.with { bench in
            let able = try await bench.start()
            #expect(await able.isBiometricAvailable())
            let unable = try await bench.start(policy: .biometryAny)
            #expect(await !unable.isBiometricAvailable())
            #expect(
                await unable.biometricAvailability()
                    == .notAvailable("this program cannot prompt for a fingerprint"))
            try await unable.authorize()
            await #expect(throws: keystore(.unavailable)) { try await unable.enableBiometric() }
            #expect(try await !unable.isBiometricEnabled())
        }
    }
}
