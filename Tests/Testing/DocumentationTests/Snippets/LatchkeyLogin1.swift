import Latchkey
import LatchkeyLogin
import LatchkeyTPM

/// Logs in with the key, or in the browser if there is no key yet.
func logIn(
    at endpoint: String, clientID: String, tcti: String, storeDirectory: String,
    presence: any PresenceAuthority, browser: any Browser
) async throws -> UserInfo {
    let store = try await RecordStore(directory: storeDirectory)
    let keystore = TPMKeystore(tcti: tcti, anchors: store)
    let container = try Container(
        ContainerConfiguration(endpoint: endpoint, clientID: clientID),
        records: RecordContainer(store: store, keystore: keystore),
        presence: presence, browser: browser)

    if try await container.isBiometricEnabled() {
        do {
            return try await container.authenticateBiometric().userInfo
        } catch let error as KeystoreError where error.code == .invalidated {
            // The hardware no longer has the key. A new one replaces it.
        }
    }
    let result = try await container.authorize()
    do {
        try await container.enableBiometric(replacing: true)
    } catch let error as KeystoreError where error.code == .cancelled {
        // The user is logged in, and did not want a key now.
    }
    return result.userInfo
}
