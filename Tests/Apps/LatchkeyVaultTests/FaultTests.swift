import Foundation
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import LatchkeyVault
import RawDatabase
import Testing

/// Random operations on one vault, with a fault at a random step of the hardware or the disk and a
/// restart after it: no value is lost, has less protection than the last success reported, or is
/// readable after a lock.
@Suite(.softwareTPM, .softwareToken)
struct FaultTests {
    /// The expected state of a vault.
    private enum Model: Equatable {
        case empty
        case plain(Login)
        case open(Login)
        case locked(Login)

        var asAfterRestart: Model {
            if case .open(let login) = self { .locked(login) } else { self }
        }
    }

    private enum Operation: CaseIterable {
        case storeToKeychain, storeToBiometrics, update, upgrade, downgrade, lock, unlock, reset,
            restart
    }

    /// The place of the fault.
    private enum Fault {
        case none
        case hardware(call: Int, CountingKeystore.Side)
        /// The disk refuses one kind of statement.
        case disk(trigger: String)
    }

    private static let triggers = [
        "INSERT ON record", "UPDATE ON record", "DELETE ON record", "INSERT ON classKey",
        "DELETE ON classKey",
        "INSERT ON container", "UPDATE ON container",
    ]

    @Test(arguments: SimulatedDevice.allCases, 0..<16)
    func `nothing is lost and nothing is weakened`(device: SimulatedDevice, seed: UInt64)
        async throws
    {
        var random = SplitMix(seed: seed)
        let scene = try Scene(on: device)
        var program = try await start(scene)
        var model = Model.empty
        var serial = 0
        for step in 0..<32 {
            serial += 1
            let login = Login(username: "user\(serial)", accessToken: "token\(serial)")
            // Other suites test refused calls.
            let possible = Operation.allCases.filter {
                Self.target(of: $0, from: model, login) != nil
            }
            let operation = possible.randomElement(using: &random) ?? .restart
            let fault = Self.fault(&random)
            try await arm(fault, program.keystore, scene)
            let before = vault(in: program.space)
            var target = Self.target(of: operation, from: model, login)
            do {
                try await perform(operation, on: before, login)
                if operation == .restart { program = try await start(scene) }
                model = try #require(target, "\(step): \(operation) is no way out of \(model)")
            } catch let error as KeystoreError {
                // After a fault the vault has either the old or the new state, as after a crash.
                target = target?.asAfterRestart
                try await disarm(program.keystore, scene)
                program = try await start(scene)
                let found = try await look(program.space)
                #expect(
                    found == model.asAfterRestart || found == target,
                    "seed \(seed), step \(step): \(operation) with \(fault) from \(model) left \(found): \(error)"
                )
                model = found
                continue
            }
            try await disarm(program.keystore, scene)
            try show(vault(in: program.space), model)
        }
    }

    // MARK: The model

    /// The next state; nil if the operation is refused.
    private static func target(of operation: Operation, from model: Model, _ login: Login) -> Model?
    {
        switch (model, operation) {
        case (_, .reset): .empty
        case (_, .restart): model.asAfterRestart
        case (.empty, .storeToKeychain): .plain(login)
        case (.empty, .storeToBiometrics): .open(login)
        case (.plain, .update): .plain(login)
        case (.plain(let old), .upgrade): .open(old)
        case (.open, .update): .open(login)
        case (.open(let old), .downgrade): .plain(old)
        case (.open(let old), .lock): .locked(old)
        case (.locked(let old), .unlock): .open(old)
        default: nil
        }
    }

    private func perform(_ operation: Operation, on vault: Vault<Login>, _ login: Login)
        async throws
    {
        switch operation {
        case .storeToKeychain: _ = try await vault.storeToKeychain(credentials: login)
        case .storeToBiometrics: _ = try await vault.storeToBiometrics(credentials: login)
        case .update: _ = try await vault.update(credentials: login)
        case .upgrade: _ = try await vault.upgrade()
        case .downgrade: _ = try await vault.downgrade()
        case .unlock: _ = try await vault.unlock()
        case .reset: _ = try await vault.reset()
        case .restart: break
        case .lock:
            let locked = try vault.lock()
            #expect(throws: KeystoreError.self) { try vault.credentials }
            #expect(throws: KeystoreError.self) { try locked.credentials }
        }
    }

    /// Checks that a vault has the model's state.
    private func show(_ vault: Vault<Login>, _ model: Model) throws {
        switch (vault, model) {
        case (.emptyWithBiometrics, .empty), (.locked, .locked): break
        case (.keychainUpgradable(let vault), .plain(let login)):
            #expect(vault.credentials == login)
        case (.biometrics(let vault), .open(let login)): #expect(vault.credentials == login)
        default: Issue.record("\(vault) is not \(model)")
        }
    }

    /// The stored state as a new program reads it: a vault with biometrics is opened with the PIN,
    /// and locked again.
    private func look(_ space: VaultSpace) async throws -> Model {
        switch vault(in: space) {
        case .empty, .emptyWithBiometrics: return .empty
        case .keychain(let vault), .keychainUpgradable(let vault):
            return .plain(try await vault.read())
        case .locked(let locked):
            let opened = try await locked.unlock()
            defer { _ = opened.lock() }
            return .locked(try opened.read())
        case .biometrics(let vault): return .open(try vault.read())
        }
    }

    // MARK: Faults

    private static func fault(_ random: inout SplitMix) -> Fault {
        switch UInt.random(in: 0..<3, using: &random) {
        case 0:
            .hardware(
                call: Int.random(in: 0..<5, using: &random),
                Bool.random(using: &random) ? .before : .after)
        case 1: .disk(trigger: triggers.randomElement(using: &random) ?? triggers[0])
        default: .none
        }
    }

    private func arm(_ fault: Fault, _ keystore: CountingKeystore, _ scene: Scene) async throws {
        switch fault {
        case .none: break
        case .hardware(let call, let side): keystore.fail(at: call, side)
        case .disk(let trigger):
            try await DatabaseQueue.raw(at: scene.databasePath).write {
                try $0.execute(
                    sql:
                        "CREATE TRIGGER fault BEFORE \(trigger) BEGIN SELECT RAISE(ABORT, 'the disk broke'); END"
                )
            }
        }
    }

    private func disarm(_ keystore: CountingKeystore, _ scene: Scene) async throws {
        keystore.clearFailure()
        try await DatabaseQueue.raw(at: scene.databasePath).write {
            try $0.execute(sql: "DROP TRIGGER IF EXISTS fault")
        }
    }

    private func start(_ scene: Scene) async throws -> (
        space: VaultSpace, keystore: CountingKeystore
    ) {
        var counting: CountingKeystore?
        let space = try await scene.start { keystore in
            let made = CountingKeystore(keystore)
            counting = made
            return made
        }
        return (space, try #require(counting))
    }
}
