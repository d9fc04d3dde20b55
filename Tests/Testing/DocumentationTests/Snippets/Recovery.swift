import Latchkey
import LatchkeyLogin

/// Logs in with the key; if a change of fingerprints invalidated it, in the browser, and creates a
/// new key.
func logInOrRecover(_ container: Container) async throws -> UserInfo {
    do {
        return try await container.authenticateBiometric().userInfo
    } catch let error as KeystoreError where error.code == .invalidated {
        let result = try await container.authorize()
        try await container.enableBiometric(replacing: true)
        return result.userInfo
    }
}
