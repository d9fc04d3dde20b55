import Latchkey

extension PINAnswer {
    /// The PIN's text, for tests only.
    var text: String? {
        guard case .pin(let pin) = self else { return nil }
        return pin.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }

    var refusal: String? {
        guard case .declined(let why) = self else { return nil }
        return why
    }
}

func request(_ purpose: PINRequest.Purpose = .current, attemptsLeft: Int? = nil) -> PINRequest {
    PINRequest(
        purpose: purpose, context: PromptContext(reason: "open the test", container: "work"),
        attemptsLeft: attemptsLeft
    )
}
