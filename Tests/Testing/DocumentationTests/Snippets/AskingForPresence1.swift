import Latchkey

/// Prompts in the app's own window.
struct WindowPresence: PresenceAuthority {
    /// Shows a field for the PIN and returns the typed text, or nil if the window was closed.
    let prompt: @Sendable (_ title: String, _ attemptsLeft: Int?) async -> String?

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let title =
            switch request.purpose {
            case .new: "Choose a PIN to \(request.context.reason). \(rule(of: request))"
            case .current: "Your PIN, to \(request.context.reason)"
            case .securityOfficer: "The token's administration PIN"
            case .unblocking: "The token's PUK"
            case .lockoutPassword: "The TPM's lockout password, to \(request.context.reason)"
            }
        guard let text = await prompt(title, request.attemptsLeft) else {
            return .declined("the window was closed")
        }
        // The rule of this hardware for a new PIN.
        if request.purpose == .new, text.count < request.minimumCharacters {
            return try await pin(request)
        }
        return .pin(try PIN(text))
    }

    private func rule(of request: PINRequest) -> String {
        request.hint ?? "Use at least \(request.minimumCharacters) characters."
    }
}
