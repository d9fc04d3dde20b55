import Latchkey

/// Prompts in the app's own window.
struct WindowPresence: PresenceAuthority {
    /// Shows a field for the PIN and returns the typed text, or nil if the window was closed.
    let prompt: @Sendable (_ title: String, _ attemptsLeft: Int?) async -> String?

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let title =
            switch request.purpose {
            case .new: "Choose a PIN to \(request.context.reason)"
            case .current: "Your PIN, to \(request.context.reason)"
            case .securityOfficer: "The token's administration PIN"
            case .unblocking: "The token's PUK"
            case .lockoutPassword: "The TPM's lockout password, to \(request.context.reason)"
            }
        guard let text = await prompt(title, request.attemptsLeft) else {
            return .declined("the window was closed")
        }
        return .pin(try PIN(text))
    }
}
