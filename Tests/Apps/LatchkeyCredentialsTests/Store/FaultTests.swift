import Foundation
import GRDB
import Latchkey
import LatchkeyCredentials
import LatchkeyTestSupport
import LatchkeyTesting
import RawDatabase
import Testing

/// Random lives of a store of credentials, with a fault at a random step of the hardware, the disk
/// or the network, and a restart after it: no credential is ever lost, half there, or less
/// protected than the last success said.
@Suite(.softwareTPM)
struct FaultTests {
    /// The visible state of a credential.
    private struct Held: Equatable {
        var access: String
        var refresh: String?
        var tags: [String: String]
        var security: AccessPolicy
    }

    /// All credentials and the default.
    private struct Model: Equatable {
        var credentials: [String: Held] = [:]
        var standard: String?
    }

    private enum Operation: CaseIterable {
        case store, storeGated, tag, makeDefault, noDefault, remove, refresh, revoke, restart
    }

    private enum Fault {
        case none
        case hardware(call: Int, CountingKeystore.Side)
        /// The disk refuses one kind of statement.
        case disk(trigger: String)
        case network(path: String, Provider.Step)
    }

    private static let triggers = [
        "INSERT ON record", "UPDATE ON record", "DELETE ON record", "INSERT ON classKey",
        "INSERT ON container",
        "UPDATE ON container", "INSERT ON recordAttribute", "DELETE ON recordAttribute",
    ]

    @Test(arguments: 0..<12)
    func `no token is lost, and no protection is weakened`(seed: UInt64) async throws {
        var random = SplitMix(seed: seed)
        let bench = try Bench()
        var (store, hardware) = try await start(bench)
        var model = Model()
        for step in 0..<24 {
            let operation = Operation.allCases.randomElement(using: &random) ?? .restart
            let id = model.credentials.keys.sorted().randomElement(using: &random)
            let fault = Self.fault(&random)
            var target = model
            try await arm(fault, hardware, bench)
            do {
                if operation == .restart { (store, hardware) = try await start(bench) }
                try await perform(operation, on: store, id, "\(step)", bench, &target)
                try disarm(hardware, bench)
                model = target
                #expect(
                    try await look(store) == model,
                    "seed \(seed), step \(step): \(operation) with \(fault)")
            } catch {
                try disarm(hardware, bench)
                (store, hardware) = try await start(bench)
                let found = try await look(store)
                #expect(
                    isPossible(found, after: operation, id, from: model, to: target, bench),
                    "seed \(seed), step \(step): \(operation) with \(fault) from \(model) left \(found): \(error)"
                )
                model = found
            }
        }
    }

    private func perform(
        _ operation: Operation, on store: CredentialStore, _ id: String?, _ new: String,
        _ bench: Bench,
        _ model: inout Model
    ) async throws {
        switch (operation, id) {
        case (.store, _), (.storeGated, _):
            let token = try bench.provider.signIn(id: new)
            let security: AccessPolicy = operation == .store ? .none : .pin
            model.credentials[new] = Held(
                access: token.accessToken, refresh: token.refreshToken, tags: ["step": new],
                security: security)
            if model.credentials.count == 1, model.standard == nil { model.standard = new }
            try await store.store(token, tags: ["step": new], security: security)
        case (.noDefault, _):
            model.standard = nil
            try store.setDefault(nil)
        case (.restart, _), (_, nil): break
        case (_, let id?):
            let credential = try #require(try store.credential(id: id))
            switch operation {
            case .tag:
                model.credentials[id]?.tags = ["step": new, "more": "x"]
                try credential.setTags(["step": new, "more": "x"])
            case .makeDefault:
                model.standard = id
                try store.setDefault(credential)
            case .refresh:
                // After a revocation that failed half way there may be nothing to refresh with.
                guard model.credentials[id]?.refresh != nil else { return }
                let token = try await credential.refresh()
                model.credentials[id]?.access = token.accessToken
                model.credentials[id]?.refresh = token.refreshToken
            case .revoke, .remove:
                model.credentials[id] = nil
                if model.standard == id { model.standard = nil }
                if operation == .remove {
                    try credential.remove()
                } else {
                    try await credential.revoke()
                }
            default: break
            }
        }
    }

    /// Whether a state can be left by an operation that failed: the old one, the new one, and in
    /// between only what the server has done already.
    private func isPossible(
        _ found: Model, after operation: Operation, _ id: String?, from old: Model, to new: Model,
        _ bench: Bench
    ) -> Bool {
        if found == old || found == new { return true }
        guard let id, let held = found.credentials[id] else { return false }
        var expected = old
        switch operation {
        case .revoke:
            expected.credentials[id]?.refresh = nil
            return found == expected
        case .refresh:
            expected.credentials[id]?.access = held.access
            expected.credentials[id]?.refresh = held.refresh
            return found == expected && bench.provider.isValid(held.access)
                && bench.provider.isValid(held.refresh)
        default: return false
        }
    }

    /// The stored credentials, with every token opened.
    private func look(_ store: CredentialStore) async throws -> Model {
        var model = Model(standard: try store.defaultCredential?.id)
        for credential in try store.allCredentials {
            let token = try await credential.token
            let metadata = try credential.metadata
            #expect(metadata.isRefreshable == (token.refreshToken != nil))
            #expect(
                try store.find {
                    $0.id == credential.id && $0.tags["step"] == metadata.tags["step"]
                } == [credential])
            model.credentials[credential.id] = Held(
                access: token.accessToken, refresh: token.refreshToken, tags: metadata.tags,
                security: try credential.security)
        }
        return model
    }

    // MARK: Faults

    private static func fault(_ random: inout SplitMix) -> Fault {
        switch UInt.random(in: 0..<6, using: &random) {
        case 0:
            return .hardware(
                call: Int.random(in: 0..<4, using: &random),
                Bool.random(using: &random) ? .before : .after)
        case 1: return .disk(trigger: triggers.randomElement(using: &random) ?? triggers[0])
        case 2:
            let steps: [Provider.Step] = [.noNetwork, .loseAnswer, .status(503, "")]
            let path = ["/token", "/revoke", "/keys"].randomElement(using: &random) ?? ""
            return .network(path: path, steps.randomElement(using: &random) ?? .noNetwork)
        default: return .none
        }
    }

    private func arm(_ fault: Fault, _ hardware: CountingKeystore, _ bench: Bench) async throws {
        switch fault {
        case .none: break
        case .hardware(let call, let side): hardware.fail(at: call, side)
        case .network(let path, let step): bench.provider.fail(path, step)
        case .disk(let trigger):
            try await DatabaseQueue.raw(at: bench.databasePath).write { database in
                try database.execute(
                    sql:
                        "CREATE TRIGGER fault BEFORE \(trigger) BEGIN SELECT RAISE(ABORT, 'the disk failed'); END"
                )
            }
        }
    }

    private func disarm(_ hardware: CountingKeystore, _ bench: Bench) throws {
        hardware.clearFailure()
        bench.provider.healAll()
        try DatabaseQueue.raw(at: bench.databasePath).write { database in
            try database.execute(sql: "DROP TRIGGER IF EXISTS fault")
        }
    }

    private func start(_ bench: Bench) async throws -> (CredentialStore, CountingKeystore) {
        let (_, anchors) = try await bench.records()
        let hardware = CountingKeystore(try bench.hardware.keystore(anchors))
        let pins = ScriptedPresence(Array(repeating: .pin(Bench.pin), count: 1000))
        return (try await bench.start(presence: pins, keystore: hardware), hardware)
    }
}
