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
