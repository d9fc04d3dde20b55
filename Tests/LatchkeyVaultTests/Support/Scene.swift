import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import LatchkeyVault

/// One machine: a store and a TPM of its own, in which programs start and end. The test needs the trait `.softwareTPM`.
struct Scene {
    static let pin = "2468"

    let directory: TemporaryDirectory
    let tcti: String

    init() throws {
        directory = try TemporaryDirectory()
        tcti = try SoftwareTPM.current.tcti
    }

    /// A program's space after its start, with everything opened that needs nobody.
    ///
    /// - Parameters:
    ///   - presence: Who sits there; nil for somebody who knows the PIN and is patient.
    ///   - wrap: Puts something between the program and its hardware.
    func start(
        _ presence: (any PresenceAuthority)? = nil, policy: AccessPolicy = .pin,
        wrap: (any Keystore) -> any Keystore = { $0 }
    ) async throws -> VaultSpace {
        let space = try await closed(presence, policy: policy, wrap: wrap)
        try await space.open()
        return space
    }

    /// A program's space before it was opened.
    func closed(
        _ presence: (any PresenceAuthority)? = nil, policy: AccessPolicy = .pin, tcti: String? = nil,
        wrap: (any Keystore) -> any Keystore = { $0 }
    ) async throws -> VaultSpace {
        let store = try await RecordStore(directory: directory.path)
        let keystore = wrap(TPMKeystore(tcti: tcti ?? self.tcti, anchors: store))
        return try VaultSpace(
            records: RecordContainer(store: store, keystore: keystore),
            presence: presence ?? ScriptedPresence(Array(repeating: .pin(Self.pin), count: 64)), policy: policy)
    }

    var databasePath: String { directory.path(of: "default/latchkey.sqlite") }

    /// Everything that is stored, write-ahead log included.
    func bytes() throws -> [String: Data] {
        let folder = directory.path(of: "default")
        return try Dictionary(
            uniqueKeysWithValues: FileManager.default.contentsOfDirectory(atPath: folder)
                .filter { !$0.hasSuffix("-shm") }
                .map { ($0, try Data(contentsOf: URL(filePath: "\(folder)/\($0)"))) })
    }
}

/// The vault of the tests.
func vault(in space: VaultSpace) -> Vault<Login> {
    VaultFactory<Login>.retrieveVault(key: "login", in: space)
}

func name(of vault: Vault<Login>) -> StateName { StateName(vault) }
