internal import Latchkey

/// Tells the person to touch the token when an operation takes longer than one without a touch does. The token itself
/// tells nobody that it waits.
final class TouchHint: Sendable {
    /// The time after which Yubico's own programs say it, too.
    static let patience = Duration.milliseconds(500)

    private let presence: any PresenceAuthority
    private let notice: PresenceNotice

    /// - Returns: nil for a token of a family that never waits for a touch.
    init?(_ presence: any PresenceAuthority, for prompt: PromptContext, on family: ModuleProfile.Family) {
        switch family {
        case .softhsm, .tpm2: return nil
        case .ykcs11, .opensc, .generic:
            self.presence = presence
            notice = PresenceNotice(.touch, context: prompt)
        }
    }

    /// Runs `body` on the token's thread, with the clock ticking.
    func during<R>(_ body: () throws(CryptokiError) -> R) throws(CryptokiError) -> R {
        // Unstructured on purpose: the thread of the token blocks meanwhile and can't wait for a child task.
        let task = Task { [presence, notice] in
            guard (try? await Task.sleep(for: Self.patience)) != nil else { return }
            await presence.notice(notice)
        }
        defer { task.cancel() }
        return try body()
    }
}
