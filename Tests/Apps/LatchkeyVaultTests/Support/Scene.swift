import Foundation
import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import LatchkeyVault

/// One machine with its own store and hardware, in which programs start and end. The test needs the
/// trait `.softwareTPM`, or `.softwareToken` for a token.
struct Scene {
    let directory: TemporaryDirectory
    /// The right PIN.
    let pin: String
    /// The TPM; empty if the machine uses a token.
    private let tcti: String
    private let tokenURI: String?

    init(on device: SimulatedDevice = .tpm) throws {
        directory = try TemporaryDirectory()
        switch device {
        case .tpm: (tcti, tokenURI, pin) = (try SoftwareTPM.current.tcti, nil, "2468")
        case .token:
            let token = try SoftwareToken.current
            (tcti, tokenURI, pin) = ("", token.uri, token.userPIN)
        }
    }

    /// The same machine with a copy of its store.
    func withCopiedStore() throws -> Scene {
        try Scene(directory.copyOfStore(), pin, tcti, tokenURI)
    }

    private init(
        _ directory: TemporaryDirectory, _ pin: String, _ tcti: String, _ tokenURI: String?
    ) {
        (self.directory, self.pin, self.tcti, self.tokenURI) = (directory, pin, tcti, tokenURI)
    }

    /// A program's space after its start, with the device class open.
    ///
    /// - Parameters:
    ///   - presence: The prompts; nil for an authority that answers each prompt with the PIN.
    ///   - wrap: Wraps the program's keystore.
    func start(
        _ presence: (any PresenceAuthority)? = nil, policy: AccessPolicy? = .pin,
        wrap: (any Keystore) -> any Keystore = { $0 }
    ) async throws -> VaultSpace {
        let space = try await closed(presence, policy: policy, wrap: wrap)
        try await space.open()
        await space.refreshAvailability()
        return space
    }

    /// A program's space before it is opened.
    func closed(
        _ presence: (any PresenceAuthority)? = nil, policy: AccessPolicy? = .pin,
        tcti: String? = nil,
        wrap: (any Keystore) -> any Keystore = { $0 }
    ) async throws -> VaultSpace {
        let store = try await RecordStore(directory: directory.path)
        let keystore: any Keystore =
            if let tokenURI, tcti == nil { try PKCS11Keystore(uri: tokenURI) } else {
                TPMKeystore(tcti: tcti ?? self.tcti, anchors: store)
            }
        return try VaultSpace(
            records: RecordContainer(store: store, keystore: wrap(keystore)),
            presence: presence ?? ScriptedPresence(Array(repeating: .pin(pin), count: 64)),
            policy: policy)
    }

    var databasePath: String { directory.path(of: "default/latchkey.sqlite") }

    /// All stored bytes, including the write-ahead log.
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
