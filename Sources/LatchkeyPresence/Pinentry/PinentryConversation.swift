internal import Glibc
internal import Latchkey

/// One request for a PIN, carried through with a pinentry program: moves bytes between the program and the
/// ``PinentryDialogue``. Blocks its thread.
struct PinentryConversation: Sendable {
    /// How long the program may take beyond the person's own time.
    private static let grace: Duration = .seconds(3)

    let program: String
    let environment: [String: String]
    let timeout: Duration
    let wording: PromptWording

    func hold(_ wakeUp: WakeUp) -> Result<PINAnswer, KeystoreError> {
        Result { () throws(KeystoreError) in
            let terminal = PinentrySettings(environment: environment)
            let process = try PinentryProcess(program: program, environment: environment)
            let settings = TerminalSettings(path: terminal.terminal)
            defer { settings?.restore() }
            let seconds = max(1, Int(timeout.components.seconds))
            var dialogue = PinentryDialogue(wording: wording, options: terminal.options, timeoutSeconds: seconds)
            return try exchange(process, &dialogue, wakeUp)
        }
    }

    private func exchange(
        _ process: borrowing PinentryProcess, _ dialogue: inout PinentryDialogue, _ wakeUp: WakeUp
    ) throws(KeystoreError) -> PINAnswer {
        var line = AssuanLine()
        var reader = PatientReader(
            descriptor: process.descriptor, wakeUp: wakeUp, deadline: .now + timeout + Self.grace)
        while true {
            let (event, byte) = reader.readByte()
            switch event {
            case .bytes:
                guard try line.append(byte) else { continue }
                let action = line.withBytes { bytes in dialogue.receive(bytes) }
                line.clear()
                switch action {
                case .wait: break
                case .send(let command):
                    guard process.send(command) else { throw PinentryDialogue.broken("it closed the connection") }
                    if command == PinentryDialogue.question {
                        reader = PatientReader(
                            descriptor: process.descriptor, wakeUp: wakeUp, deadline: .now + timeout + Self.grace)
                    }
                case .finish(let result):
                    process.leave(wakeUp)
                    return try result.get()
                }
            case .woken: return .declined("it was cancelled")
            case .late: return .declined("nobody answered within \(timeout.components.seconds) seconds")
            case .end, .failed: throw PinentryDialogue.broken("it ended without an answer")
            }
        }
    }
}
