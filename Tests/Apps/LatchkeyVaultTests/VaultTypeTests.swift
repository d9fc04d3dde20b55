import Latchkey
import LatchkeyTesting
import LatchkeyVault
import Testing

/// A program that names another type than the one that stored the value.
@Suite(.softwareTPM)
struct VaultTypeTests {
    /// The type of a later version of the program.
    struct Renamed: Codable, Sendable { let name: String }

    private func later(in space: VaultSpace) -> Vault<Renamed> {
        VaultFactory<Renamed>.retrieveVault(key: "login", in: space)
    }

    private func expectIntact(_ error: KeystoreError?) {
        #expect(error?.code == .invalidInput)
        #expect(error?.reason.contains("intact") == true)
        for word in ["backup", "Restore", "delete", "damaged"] {
            #expect(error?.recovery.contains(word) == false, "\(error?.recovery ?? "")")
        }
    }

    @Test func `a value of another type is intact, and stays so`() async throws {
        let scene = try Scene()
        let space = try await scene.start()
        _ = try await vault(in: space).storeToKeychain(credentials: .jane)
        guard case .locked(let unreadable) = later(in: space) else {
            Issue.record("a value of another type was read")
            return
        }
        expectIntact(unreadable.failure)
        #expect(!later(in: space).biometricsEnabled)
        expectIntact(await #expect(throws: KeystoreError.self) { try await unreadable.unlock() })
        #expect(try vault(in: space).credentials == .jane)
    }

    @Test func `with biometrics too, and the vault is locked afterwards`() async throws {
        let scene = try Scene()
        let first = try await scene.start()
        _ = try await vault(in: first).storeToBiometrics(credentials: .jane).lock()
        let space = try await scene.start()
        #expect(later(in: space).biometricsEnabled)
        let error = await #expect(throws: KeystoreError.self) {
            try await later(in: space).unlock()
        }
        expectIntact(error)
        guard case .locked = vault(in: space) else {
            Issue.record("the vault stayed open")
            return
        }
        #expect(try await vault(in: space).unlock().credentials == .jane)
    }

    @Test func `a vault of a space that is not open claims no biometrics`() async throws {
        let scene = try Scene()
        _ = try await vault(in: scene.start()).storeToKeychain(credentials: .jane)
        #expect(!vault(in: try await scene.closed()).biometricsEnabled)
    }
}
