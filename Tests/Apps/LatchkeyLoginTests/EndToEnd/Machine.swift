import Foundation
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting

/// One machine with one store and one TPM, and a server process. The test needs the trait
/// `.softwareTPM`.
struct Machine {
    let server: IdentityProcess
    let directory: TemporaryDirectory
    let tpm: SoftwareTPM
    /// All requests of the containers.
    let wire: RecordingTransport

    init(_ server: IdentityProcess, transport: any HTTPTransport = CurlTransport()) async throws {
        self.server = server
        wire = RecordingTransport(forwardingTo: transport)
        directory = try TemporaryDirectory()
        tpm = try SoftwareTPM.current
    }

    func start(
        _ browser: (any Browser)? = nil, name: String = "default", pins: Int = 4,
        policy: AccessPolicy = .pin, storage: TokenStorage = .persistent,
        wrapping wrap: (any Keystore) -> any Keystore = { $0 },
        now: @escaping @Sendable () -> Date = { Date() }
    ) async throws -> Container {
        let store = try await RecordStore(directory: directory.path)
        let records = try RecordContainer(
            name: name, store: store, keystore: wrap(TPMKeystore(tcti: tpm.tcti, anchors: store)))
        return try Container(
            ContainerConfiguration(
                endpoint: server.endpoint, clientID: server.clientID, tokenStorage: storage,
                policy: policy, now: now),
            records: records,
            presence: ScriptedPresence(Array(repeating: .pin(Bench.pin), count: pins)),
            browser: browser ?? FormBrowser(server.users[0]), transport: wire)
    }
}
