import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting

/// One machine with one store and one TPM, and a server. The test needs the trait `.softwareTPM`.
struct Bench {
    let directory: TemporaryDirectory
    let tpm: SoftwareTPM
    let identity: FakeIdentity
    let browser: VisitingBrowser

    static let pin = "2468"

    static func with(
        _ manner: FakeIdentity.Manner = .init(), _ body: (Bench) async throws -> Void
    ) async throws {
        let identity = try FakeIdentity(manner)
        let bench = Bench(
            directory: try TemporaryDirectory(), tpm: try SoftwareTPM.current, identity: identity,
            browser: VisitingBrowser(identity))
        try await body(bench)
    }

    /// Starts a program: a new container over the same store.
    func start(
        name: String = "default",
        presence: any PresenceAuthority = ScriptedPresence(Array(repeating: .pin(pin), count: 8)),
        transport: (any HTTPTransport)? = nil, tokenStorage: TokenStorage = .persistent,
        policy: AccessPolicy? = .pin,
        keystore: (any Keystore)? = nil, browser: (any Browser)? = nil,
        endpoint: String = FakeIdentity.address, clientID: String = "app",
        additionalOrigins: Set<String> = [],
        now: @escaping @Sendable () -> Date = { Date() }
    ) async throws -> Container {
        let records = try await records(name, keystore)
        let configuration = ContainerConfiguration(
            endpoint: endpoint, clientID: clientID, tokenStorage: tokenStorage, policy: policy,
            additionalOrigins: additionalOrigins, now: now)
        return try Container(
            configuration, records: records, presence: presence, browser: browser ?? self.browser,
            transport: transport ?? identity)
    }

    /// The rows, as another program reads them.
    func records(_ name: String = "default", _ keystore: (any Keystore)? = nil) async throws
        -> RecordContainer
    {
        let store = try await RecordStore(directory: directory.path)
        return try RecordContainer(
            name: name, store: store,
            keystore: keystore ?? TPMKeystore(tcti: tpm.tcti, anchors: store))
    }
}
