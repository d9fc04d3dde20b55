import Latchkey
import LatchkeyLogin

/// Logs in with the key; where that died with the fingers, in the browser, with a new key for next time.
func logInOrRecover(_ container: Container) async throws -> UserInfo {
    do {
        return try await container.authenticateBiometric().userInfo
    } catch let error as KeystoreError where error.code == .invalidated {
        let result = try await container.authorize()
        try await container.enableBiometric(replacing: true)
        return result.userInfo
    }
}
