import Foundation
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import LatchkeyVault
import RawDatabase
import Testing

/// Locking, unlocking, and the prompts.
@Suite(.softwareTPM)
struct LockTests {
    @Test func `a lock closes every copy, and unlocking again reopens none`() async throws {
        let scene = try Scene()
        let space = try await scene.start()
        guard
            case .biometrics(let made) = try await vault(in: space).storeToBiometrics(
                credentials: .jane),
            case .biometrics(let found) = vault(in: space)
        else {
            Issue.record("not open")
            return
        }
        let copy = made
        #expect(copy.credentials == .jane && found.credentials == .jane)
        let locked = made.lock()
        for vault in [made, copy, found] {
            #expect(throws: wrongState) { try vault.read() }
            #expect(throws: wrongState) { try vault.wrap().credentials }
            await #expect(throws: wrongState) { try await vault.update(credentials: .june) }
            let error = await #expect(throws: wrongState) { try await vault.downgrade() }
            #expect(error?.vaultCode == .lockedWithBiometricsUseReset)
            #expect(error?.recovery == "Unlock it first.")
            #expect(name(of: vault.wrap()) == .locked)
        }
        let unlocked = try await locked.unlock()
        #expect(unlocked.credentials == .jane)
        #expect(throws: wrongState) { try copy.read() }
    }

    @Test func `each opening prompts once, and nothing else prompts`() async throws {
        let presence = ScriptedPresence(pins: "2468", "2468")
        let scene = try Scene()
        let space = try await scene.start(presence)
        let opened = try await vault(in: space).storeToBiometrics(credentials: .jane)
        #expect(presence.requests.map(\.purpose) == [.new])
        let updated = try await opened.update(credentials: .june)
        #expect(try updated.credentials == .june)
        let unlocked = try await updated.lock().unlock()
        #expect(presence.requests.map(\.purpose) == [.new, .current])
        _ = try await unlocked.downgrade()
        _ = try await vault(in: space).reset()
        #expect(presence.requests.count == 2)
        #expect(presence.requests.map(\.context.container) == ["default", "default"])
    }

    @Test func `declining changes nothing`() async throws {
        let scene = try Scene()
        let presence = ScriptedPresence([.decline, .decline, .pin("2468"), .decline])
        let space = try await scene.start(presence)
        var before = try rows(scene)
        await #expect(throws: cancelled) {
            try await vault(in: space).storeToBiometrics(credentials: .jane)
        }
        #expect(try rows(scene) == before)
        let plain = try await vault(in: space).storeToKeychain(credentials: .jane)
        before = try rows(scene)
        await #expect(throws: cancelled) { try await plain.upgrade() }
        #expect(try rows(scene) == before)
        #expect(try vault(in: space).credentials == .jane)
        let locked = try await plain.upgrade().lock()
        before = try rows(scene)
        await #expect(throws: cancelled) { try await locked.unlock() }
        #expect(try rows(scene) == before)
    }

    @Test func `a lockout is reported and writes nothing`() async throws {
        let scene = try Scene()
        let space = try await scene.start(ScriptedPresence(pins: "2468", "1111", "1111", "1111"))
        let locked = try await vault(in: space).storeToBiometrics(credentials: .jane).lock()
        let before = try rows(scene)
        try await lockOut(locked)
        await space.refreshAvailability()
        #expect(!space.isUserVerificationAvailable)
        #expect(name(of: vault(in: space)) == .locked)
        #expect(try rows(scene) == before)
        #expect(name(of: try await locked.reset()) == .empty)
    }

    @Test
    func `reauthentication that cannot lift a lockout returns false and reports when it ends`()
        async throws
    {
        let scene = try Scene()
        let presence = ScriptedPresence(
            [
                .pin("2468"), .pin("1111"), .pin("1111"), .pin("1111"), .decline,
                .pin("a wrong password"),
            ])
        let space = try await scene.start(presence)
        let locked = try await vault(in: space).storeToBiometrics(credentials: .jane).lock()
        let until = try await lockOut(locked)
        #expect(try await locked.reauthenticateOwner() == false)
        #expect(presence.notices.isEmpty, "the user declined")
        #expect(try await locked.reauthenticateOwner() == false)
        guard case .lockedOut(let reason, let recovery, let end?) = presence.notices.first else {
            Issue.record("no notice: \(presence.notices)")
            return
        }
        #expect(
            reason
                == "the TPM is locked out after too many wrong PINs or power cuts, and the lockout password is wrong"
        )
        #expect(recovery.hasPrefix("The TPM accepts no lockout password for 1000 seconds."))
        #expect(abs(end.timeIntervalSince(until)) < 60)
        let next = await #expect(throws: KeystoreError.self) { try await locked.unlock() }
        #expect(next?.code == .lockedOut && next?.lockedOutUntil != nil)
        #expect(presence.requests.count == 6)
    }

    /// Answers the next line to every request, as a file of PINs does.
    private struct Script: PresenceAuthority {
        let lines: ScriptedPresence
        var isInteractive: Bool { false }

        func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
            try await lines.pin(request)
        }
        func notice(_ notice: PresenceNotice) async { await lines.notice(notice) }
    }

    @Test func `a script's PIN is not used as the lockout password`() async throws {
        let lines = ScriptedPresence(pins: "2468", "1111", "1111", "1111", "2468")
        let scene = try Scene()
        let space = try await scene.start(Script(lines: lines))
        let locked = try await vault(in: space).storeToBiometrics(credentials: .jane).lock()
        try await lockOut(locked)
        #expect(try await locked.reauthenticateOwner() == false)
        #expect(lines.requests.map(\.purpose).allSatisfy { $0 != .lockoutPassword })
        #expect(lines.requests.count == 4)
        #expect(lines.notices.count == 1)
    }

    /// - Returns: The end of the lockout.
    @discardableResult
    private func lockOut(_ locked: Vault<Login>) async throws -> Date {
        for _ in 0..<3 { await #expect(throws: wrongProof) { try await locked.unlock() } }
        let error = await #expect(throws: KeystoreError.self) { try await locked.unlock() }
        #expect(error?.code == .lockedOut)
        return try #require(error?.lockedOutUntil)
    }

    @Test func `reauthentication does not unlock, and the next unlock accepts its proof`()
        async throws
    {
        let presence = ScriptedPresence([
            .pin("2468"), .pin("1111"), .decline, .pin("2468"), .pin("2468"),
        ])
        let scene = try Scene()
        let space = try await scene.start(presence)
        let locked = try await vault(in: space).storeToBiometrics(credentials: .jane).lock()
        #expect(try await locked.reauthenticateOwner() == false)
        #expect(try await locked.reauthenticateOwner() == false)
        #expect(try await locked.reauthenticateOwner())
        #expect(name(of: vault(in: space)) == .locked)
        #expect(presence.requests.count == 4)
        let unlocked = try await locked.unlock()
        #expect(try unlocked.credentials == .jane)
        #expect(presence.requests.count == 4)
        _ = try await unlocked.lock().unlock()
        #expect(presence.requests.count == 5)
    }

    @Test func `a lock discards the proof`() async throws {
        let presence = ScriptedPresence(pins: "2468", "2468", "2468")
        let scene = try Scene()
        let space = try await scene.start(presence)
        guard
            case .biometrics(let opened) = try await vault(in: space).storeToBiometrics(
                credentials: .jane)
        else {
            Issue.record("not open")
            return
        }
        #expect(try await opened.reauthenticateOwner())
        _ = try await opened.lock().unlock()
        #expect(presence.requests.count == 3)
    }

    @Test func `secrets are in no file`() async throws {
        let scene = try Scene()
        let space = try await scene.start()
        let plain = try await vault(in: space).storeToKeychain(credentials: .jane)
        _ = try await plain.upgrade().update(credentials: .june)
        for (file, bytes) in try scene.bytes() {
            #expect(bytes.range(of: Data("canary".utf8)) == nil, "\(file)")
        }
    }

    private func rows(_ scene: Scene) throws -> [[Row]] {
        try DatabaseQueue.raw(at: scene.databasePath).read { database in
            try ["record", "classKey"].map {
                try Row.fetchAll(database, sql: "SELECT * FROM \($0)")
            }
        }
    }
}
