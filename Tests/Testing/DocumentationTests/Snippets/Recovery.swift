import Latchkey
import LatchkeyLogin

/// Logs in with the key. If the hardware no longer has it, or a change of fingerprints invalidated
/// it, logs in in the browser and creates a new key.
func logInOrRecover(_ container: Container) async throws -> UserInfo {
    do {
        return try await container.authenticateBiometric().userInfo
    } catch let error as KeystoreError where error.code == .invalidated {
        let result = try await container.authorize()
        try await container.enableBiometric(replacing: true)
        return result.userInfo
    }
}
