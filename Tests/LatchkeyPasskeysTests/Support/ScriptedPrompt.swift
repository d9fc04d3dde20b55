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
    }

    private let state = Mutex(State())
    private let answer: @Sendable (PasskeyQuestion) async -> PasskeyChoice
    private let authority: @Sendable () -> ScriptedPresence

    init(
        answer: @escaping @Sendable (PasskeyQuestion) async -> PasskeyChoice = { _ in .use(0) },
        authority: @escaping @Sendable () -> ScriptedPresence = {
            ScriptedPresence(pins: "123456", "123456", "123456", "123456")
        }
    ) {
        self.authority = authority
        self.answer = answer
    }

    var questions: [PasskeyQuestion] { state.withLock { $0.questions } }
    /// The number of prompts that are shown now.
    var open: Int { state.withLock { $0.open } }
    /// The PIN prompts of all requests.
    var pins: [PINRequest] { state.withLock { $0.presences }.flatMap(\.requests) }
    func refuse(by choice: PasskeyChoice) { state.withLock { $0.refusal = choice } }

    func choose(_ question: PasskeyQuestion) async -> PasskeyChoice {
        state.withLock { state in
            state.questions.append(question)
            state.open += 1
        }
        defer { state.withLock { $0.open -= 1 } }
        return await answer(question)
    }

    func verification(for question: PasskeyQuestion) -> any PresenceAuthority {
        let presence = authority()
        state.withLock { $0.presences.append(presence) }
        return presence
    }

    func refusal(of question: PasskeyQuestion) async -> PasskeyChoice { state.withLock { $0.refusal } }

    /// Waits until the task is cancelled.
    static func hesitate() async -> PasskeyChoice {
        while !Task.isCancelled { try? await Task.sleep(for: .seconds(3600)) }
        return .no
    }
}
