import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeyTesting
import Testing

/// Random lives of a store, with a fault at a random step of the hardware or the disk and a restart after it.
@Suite(.softwareTPM, .softwareToken)
struct FaultTests {
    private struct Entry: Equatable {
        var tags: [String: String]
        var refresh: String
        var isGated: Bool
    }

    private struct Model: Equatable {
        var entries: [String: Entry] = [:]
        var defaultID: String?
    }

    private enum Operation: CaseIterable {
        case store, storeGated, tag, refresh, remove, setDefault, clearDefault, lock, restart
    }

    private static let triggers = [
        "INSERT ON record", "UPDATE ON record", "DELETE ON record", "INSERT ON recordAttribute",
        "DELETE ON recordAttribute", "INSERT ON classKey", "UPDATE ON container",
    ]

    @Test(arguments: SimulatedDevice.allCases, 0..<12)
    func `nothing is lost, and nothing is half done`(device: SimulatedDevice, seed: UInt64) async throws {
        var random = SplitMix(seed: seed)
        let scene = try Scene(.init(rotates: false), on: device)
        var (store, keystore) = try await start(scene)
        var model = Model()
        for step in 0..<24 {
            let operation = Operation.allCases.randomElement(using: &random) ?? .restart
            let id = model.entries.keys.sorted().randomElement(using: &random)
            let wanted = Self.model(after: operation, on: id, "t\(step)", model)
            let isFaulty = Bool.random(using: &random)
            let trigger = Self.triggers.randomElement(using: &random) ?? Self.triggers[0]
            let isDisk = Bool.random(using: &random)
            if isFaulty {
                if isDisk {
                    try await scene.sql(
                        "CREATE TRIGGER fault BEFORE \(trigger) BEGIN SELECT RAISE(ABORT, 'the disk broke'); END")
                } else {
                    let side = CountingKeystore.Side.allCases.randomElement(using: &random) ?? .before
                    keystore.fail(at: Int.random(in: 0..<3, using: &random), side)
                }
            }
            var failure: (any Error)?
            do {
                if operation == .restart {
                    (store, keystore) = try await start(scene)
                } else {
                    try await perform(operation, on: id, new: "t\(step)", scene, store)
                }
            } catch {
                failure = error
            }
            keystore.heal()
            try await scene.sql("DROP TRIGGER IF EXISTS fault")
            if failure != nil { (store, keystore) = try await start(scene) }
            let found = try await look(store)
            let context = "seed \(seed), step \(step): \(operation) \(String(describing: failure))"
            if failure == nil {
                #expect(found == wanted, "\(context)")
            } else {
                #expect(isFaulty, "\(context)")
                #expect(found == model || found == wanted, "\(context)")
            }
            model = found
        }
    }

    private static func model(after operation: Operation, on id: String?, _ new: String, _ model: Model) -> Model {
        var model = model
        switch operation {
        case .store, .storeGated:
            if model.entries.isEmpty { model.defaultID = new }
            model.entries[new] = Entry(tags: ["n": new], refresh: "access-0", isGated: operation == .storeGated)
        case .tag: id.map { model.entries[$0]?.tags = ["n": new] }
        case .refresh: id.map { model.entries[$0]?.refresh = "access-new" }
        case .remove:
            id.map { model.entries[$0] = nil }
            if model.defaultID == id { model.defaultID = nil }
        case .setDefault: if let id { model.defaultID = id }
        case .clearDefault: model.defaultID = nil
        case .lock, .restart: break
        }
        return model
    }

    private func perform(
        _ operation: Operation, on id: String?, new: String, _ scene: Scene, _ store: CredentialStore
    ) async throws {
        let credential = try id.flatMap { id throws(KeystoreError) in try store.with(id: id) }
        switch operation {
        case .store: try await store.store(token: scene.token(new), tags: ["n": new])
        case .storeGated: try await store.store(token: scene.token(new), tags: ["n": new], security: .pin)
        case .tag: try await credential?.setTags(["n": new])
        case .refresh: try await credential?.refresh()
        case .remove: try await credential?.remove()
        case .setDefault: if let credential { try await store.setDefault(credential) }
        case .clearDefault: try await store.setDefault(nil)
        case .lock:
            try credential?.lock()
            if let credential, try credential.metadata.security == .pin {
                #expect(throws: KeystoreError.self) { try credential.token }
            }
        case .restart: break
        }
    }

    /// Everything that is stored, tokens too, and that the index says the same.
    private func look(_ store: CredentialStore) async throws -> Model {
        var model = Model(defaultID: try store.defaultCredential()?.id)
        for credential in try store.all() {
            let access = try await credential.unlock().accessToken
            let metadata = try credential.metadata
            model.entries[credential.id] = Entry(
                tags: metadata.tags, refresh: access == "access-0" ? access : "access-new",
                isGated: metadata.security == .pin)
            let found = try store.find { $0.tags["n"] == metadata.tags["n"] ?? "" && $0.subject == "jane" }
            #expect(found.contains(credential))
        }
        return model
    }

    private func start(_ scene: Scene) async throws -> (CredentialStore, CountingKeystore) {
        var counting: CountingKeystore?
        let store = try await scene.start(wrap: { keystore in
            let made = CountingKeystore(keystore)
            counting = made
            return made
        })
        return (store, try #require(counting))
    }
}
