import Latchkey
import LatchkeyPasskeys
import LatchkeyTesting
import Synchronization

/// A user who answers the questions of a script, and enters PINs.
final class ScriptedPrompt: PasskeyPrompt {
    private struct State {
        var questions: [PasskeyQuestion] = []
        var open = 0
        var refusal = PasskeyChoice.no
        var presences: [ScriptedPresence] = []
        var pinPrompts: [Bool] = []
        var failures: [KeystoreError] = []
        var canPrompt = true
    }

    private let state = Mutex(State())
    private let answer: @Sendable (PasskeyQuestion) async -> PasskeyChoice
    private let asksForPINPrompts: Bool
    private let authority: @Sendable () -> ScriptedPresence

    /// - Parameter asksForPINPrompts: Whether each question asks whether the verification requests
    ///   a PIN, which uses the TPM.
    init(
        asksForPINPrompts: Bool = false,
        answer: @escaping @Sendable (PasskeyQuestion) async -> PasskeyChoice = { _ in .use(0) },
        authority: @escaping @Sendable () -> ScriptedPresence = {
            ScriptedPresence(pins: "123456", "123456", "123456", "123456")
        }
    ) {
        self.asksForPINPrompts = asksForPINPrompts
        self.authority = authority
        self.answer = answer
    }

    var questions: [PasskeyQuestion] { state.withLock { $0.questions } }
    /// For each question, whether the verification requests a PIN.
    var pinPrompts: [Bool] { state.withLock { $0.pinPrompts } }
    /// The number of prompts that are shown now.
    var open: Int { state.withLock { $0.open } }
    /// The PIN prompts of all requests.
    var pins: [PINRequest] { state.withLock { $0.presences }.flatMap(\.requests) }
    /// The failures of which the user was told.
    var failures: [KeystoreError] { state.withLock { $0.failures } }
    func disable() { state.withLock { $0.canPrompt = false } }
    func refuse(by choice: PasskeyChoice) { state.withLock { $0.refusal = choice } }

    func choose(
        _ question: PasskeyQuestion, promptsForPIN: @Sendable () async -> Bool
    ) async -> PasskeyChoice {
        state.withLock { state in
            state.questions.append(question)
            state.open += 1
        }
        defer { state.withLock { $0.open -= 1 } }
        if asksForPINPrompts {
            let prompts = await promptsForPIN()
            state.withLock { $0.pinPrompts.append(prompts) }
        }
        return await answer(question)
    }

    func verification(for question: PasskeyQuestion) -> any PresenceAuthority {
        let presence = authority()
        state.withLock { $0.presences.append(presence) }
        return presence
    }

    func refusal(of question: PasskeyQuestion) async -> PasskeyChoice {
        state.withLock { $0.refusal }
    }

    func canPrompt() async -> Bool { state.withLock { $0.canPrompt } }

    func report(_ error: KeystoreError, of question: PasskeyQuestion) async {
        state.withLock { $0.failures.append(error) }
    }

    /// Waits until the task is cancelled.
    static func hesitate() async -> PasskeyChoice {
        while !Task.isCancelled { try? await Task.sleep(for: .seconds(3600)) }
        return .no
    }
}
