import Foundation
import GRDB
import Latchkey
import LatchkeyCredentials
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting

/// One machine with a store and hardware of its own, and a provider. The test needs the trait `.softwareTPM`, or
/// `.softwareToken` for a token.
struct Scene {
    let directory: TemporaryDirectory
    /// The PIN that is right.
    let pin: String
    /// The TPM; empty where a token is used.
    private let tcti: String
    private let tokenURI: String?
    let provider: Provider
    let clock = SettableClock()

    init(_ manner: Provider.Manner = .init(), on device: SimulatedDevice = .tpm) throws {
        directory = try TemporaryDirectory()
        switch device {
        case .tpm: (tcti, tokenURI, pin) = (try SoftwareTPM.current.tcti, nil, "2468")
        case .token:
            let token = try SoftwareToken.current
            (tcti, tokenURI, pin) = ("", token.uri, token.userPIN)
        }
        provider = Provider(manner, now: clock.now)
    }

    /// A program's store after its start.
    func start(
        _ presence: (any PresenceAuthority)? = nil, tcti: String? = nil, isOpen: Bool = true,
        _ configure: (inout CredentialStore.Configuration) -> Void = { _ in },
        wrap: (any Keystore) -> any Keystore = { $0 }
    ) async throws -> CredentialStore {
        let store = try await RecordStore(directory: directory.path)
        var configuration = CredentialStore.Configuration()
        configuration.now = clock.now
        configure(&configuration)
        let keystore: any Keystore =
            if let tokenURI, tcti == nil { try PKCS11Keystore(uri: tokenURI) } else {
                TPMKeystore(tcti: tcti ?? self.tcti, anchors: store)
            }
        let credentials = CredentialStore(
            records: try RecordContainer(store: store, keystore: wrap(keystore)),
            presence: presence ?? ScriptedPresence(Array(repeating: .pin(pin), count: 64)),
            transport: provider, configuration: configuration)
        if isOpen { try await credentials.open() }
        return credentials
    }

    /// A token as the provider gives it.
    ///
    /// - Parameters:
    ///   - claims: What its ID token says beside the usual; nil for no ID token.
    func token(
        _ id: String? = nil, refresh: String? = "refresh-0", lifetime: Int? = 3600, claims: [String: Any]? = [:],
        more: [String: JSONValue] = [:]
    ) throws -> Token {
        var response: [String: JSONValue] = ["access_token": "access-0", "token_type": "Bearer"]
        if let lifetime { response["expires_in"] = .number(Double(lifetime)) }
        if let refresh { response["refresh_token"] = .string(refresh) }
        if let claims {
            let all = TokenSigner.claims(now: clock.now()).merging(claims) { $1 }
            response["id_token"] = .string(provider.signer.sign(all))
        }
        return try Token(
            response.merging(more) { $1 }, context: Provider.context, issuedAt: clock.now(), id: id)
    }

    /// Does something to the file behind everybody's back.
    func sql(_ text: String) async throws {
        try await DatabaseQueue(path: directory.path(of: "default/latchkey.sqlite")).write {
            try $0.execute(sql: text)
        }
    }

    /// Has the disk refuse one kind of statement, such as `UPDATE ON record`, for the time of `body`.
    func withBrokenDisk(_ trigger: String, _ body: () async throws -> Void) async throws {
        try await sql("CREATE TRIGGER fault BEFORE \(trigger) BEGIN SELECT RAISE(ABORT, 'the disk broke'); END")
        try await body()
        try await sql("DROP TRIGGER fault")
    }
}
