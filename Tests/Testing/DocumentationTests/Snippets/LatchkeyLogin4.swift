import Latchkey
import LatchkeyLogin

/// Authenticates the user again, and returns the proof for the bank's server.
func confirmPayment(with container: Container) async throws -> String? {
    try await container.reauthenticate(
        ReauthenticationOptions(reason: "confirm the payment"))
    return try await container.idTokenHint
}
