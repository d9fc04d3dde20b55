import Latchkey
import LatchkeyLogin
import LatchkeyVault

/// Logs in with the key, and opens the vault.
///
/// - Returns: The text to show to the user; nil after a success, and if the user declined.
func open(_ container: Container, _ vault: Vault<String>) async -> String? {
    do {
        try await container.authenticateBiometric()
        _ = try await vault.unlock()
        return nil
    } catch let error as any ReportableError {
        switch error.commonCode {
        case .cancelled: return nil
        case .lockedOut: return error.lockedOutUntil.map { "Wait until \($0)." } ?? error.recovery
        default: return "\(error.description) \(error.recovery)"
        }
    } catch {
        return "\(error)"
    }
}
