import Latchkey

/// Prompts in a window, whose state is on the main actor.
@MainActor final class PINWindow: PresenceAuthority {
    private(set) var title = ""
    private var answer: CheckedContinuation<String?, Never>?

    @MainActor func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        close(with: nil)
        title = "Your PIN, to \(request.context.reason)"
        let text = await withTaskCancellationHandler {
            await withCheckedContinuation { answer = $0 }
        } onCancel: {
            Task { @MainActor in close(with: nil) }
        }
        guard let text else { return .declined("the window was closed") }
        return .pin(try PIN(text))
    }

    /// The window's buttons call this.
    ///
    /// - Parameter text: The typed text; nil if the user declines.
    func close(with text: String?) {
        answer?.resume(returning: text)
        answer = nil
    }
}
