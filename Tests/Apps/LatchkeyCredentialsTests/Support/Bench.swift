import Foundation
import Latchkey
import LatchkeyOAuth
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting

@testable import LatchkeyCredentials

/// One machine with one store and one TPM, and a server. The test needs the trait `.softwareTPM`.
struct Bench: Sendable {
    let directory: TemporaryDirectory
    let hardware: Hardware
    let provider: Provider
    let clock: SettableClock

    static let pin = "2468"

    init(_ hardware: Hardware = .softwareTPM, _ manner: Provider.Manner = .init()) throws {
        directory = try TemporaryDirectory()
        self.hardware = hardware
        clock = SettableClock(stoppedAt: Date(timeIntervalSince1970: 1_800_000_000))
        provider = Provider(manner, clock: clock)
    }

    /// Starts a program: a new store over the same rows.
    func start(
        presence: (any PresenceAuthority)? = nil,
        transport: (any HTTPTransport)? = nil, keystore wrapping: (any Keystore)? = nil,
        configuration: CredentialConfiguration? = nil, isOpen: Bool = true
    ) async throws -> CredentialStore {
        let (records, _) = try await records(keystore: wrapping)
        let store = CredentialStore(
            records: records,
            presence: try presence
                ?? ScriptedPresence(Array(repeating: .pin(hardware.pin), count: 8)),
            transport: transport ?? provider,
            configuration: configuration ?? CredentialConfiguration(clock: clock))
        if isOpen { try await store.open() }
        return store
    }

    func records(keystore wrapping: (any Keystore)? = nil) async throws -> (
        RecordContainer, RecordStore
    ) {
        let store = try await RecordStore(directory: directory.path)
        let keystore = if let wrapping { wrapping } else { try hardware.keystore(store) }
        return (try RecordContainer(store: store, keystore: keystore), store)
    }

    /// The SQLite file.
    var databasePath: String { directory.path(of: "default/latchkey.sqlite") }
}

/// The hardware of a test.
enum Hardware: CaseIterable, Sendable, CustomStringConvertible {
    case softwareTPM
    /// The test needs the trait `.softwareToken` too.
    case softwareToken

    /// The PIN that is right.
    var pin: String {
        get throws {
            switch self {
            case .softwareTPM: "2468"
            case .softwareToken: try SoftwareToken.current.userPIN
            }
        }
    }

    func keystore(_ anchors: any TrustAnchors) throws -> any Keystore {
        switch self {
        case .softwareTPM: TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: anchors)
        case .softwareToken: try PKCS11Keystore(uri: SoftwareToken.current.uri)
        }
    }

    var description: String {
        switch self {
        case .softwareTPM: "swtpm"
        case .softwareToken: "SoftHSM2"
        }
    }
}

extension Credential {
    /// The server of the credential's token.
    var server: CredentialServer {
        get async throws { store.server(of: try await token.context) }
    }
}

extension CredentialServer {
    func validate(_ token: JWT, _ expected: IDTokenValidator.Expectations = .init())
        async throws(CredentialError)
    {
        try await validate(token, expected, at: Date())
    }

    func validate(_ token: JWT, at now: Date) async throws(CredentialError) {
        try await validate(token, .init(), at: now)
    }
}
