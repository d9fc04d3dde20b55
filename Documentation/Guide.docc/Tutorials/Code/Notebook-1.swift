import Latchkey
import LatchkeyLogin
import LatchkeyPresence
import LatchkeyTPM

/// A user's login on this machine.
struct Notebook {
    private let container: Container

    /// - Parameter environment: `LATCHKEY_ENDPOINT` and `LATCHKEY_CLIENT_ID` select the server, `LATCHKEY_TCTI` the TPM,
    ///   `LATCHKEY_PIN_SOURCE` the source of PINs, and `BROWSER` the browser.
    init(environment: [String: String]) async throws {
        let store = try await RecordStore(
            directory: RecordStore.defaultDirectory(environment: environment), profile: "notes")
        let records = try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: environment["LATCHKEY_TCTI"], anchors: store))
        let source = try PINSource(named: environment["LATCHKEY_PIN_SOURCE"])
        let presence = try source.authority(environment: environment)

        container = try Container(
            ContainerConfiguration(
                endpoint: environment["LATCHKEY_ENDPOINT"] ?? "http://127.0.0.1:3000",
                clientID: environment["LATCHKEY_CLIENT_ID"] ?? "notes"),
            records: records, presence: presence,
            browser: SystemBrowser(environment: environment) { print($0) })
    }
}
