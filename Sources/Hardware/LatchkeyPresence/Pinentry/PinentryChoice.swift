internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// Asks a question with two or three buttons, with the system's pinentry program (its command
/// `CONFIRM`).
package struct PinentryChoice: Sendable {
    /// The labels of the buttons.
    package struct Buttons: Hashable, Sendable {
        package let accept: String
        /// The second choice; nil for two buttons.
        package let other: String?
        package let cancel: String

        package init(accept: String, other: String?, cancel: String) {
            (self.accept, self.other, self.cancel) = (accept, other, cancel)
        }
    }

    package enum Answer: Hashable, Sendable {
        case accepted
        /// The second choice.
        case other
        /// The second choice in a program that shows two buttons only. It replaces the cancel
        /// button, so the user cannot refuse.
        case otherOfTwo
        case cancelled
        /// The time has passed, or the task was cancelled and the program has closed its window.
        case unanswered
    }

    private let program: String
    private let environment: [String: String]

    /// - Parameter environment: As for ``PinentryPresence``.
    package init(environment: [String: String]) {
        program = environment["PINENTRY_PROGRAM"] ?? "pinentry"
        self.environment = environment
    }

    /// Shows the question and waits for the answer. Cancelling the task closes the window at once.
    ///
    /// - Throws: `KeystoreError`: `unavailable` if the program is missing or cannot prompt,
    ///   `failed` if it does not follow the protocol.
    package func ask(
        _ question: String, _ buttons: Buttons, within limit: Duration
    ) async throws(KeystoreError) -> Answer {
        let (program, environment) = (program, environment)
        return try await onOwnThread { wakeUp throws(KeystoreError) in
            let process = try PinentryProcess(program: program, environment: environment)
            let options = PinentrySettings(environment: environment).options
            var exchange = ChoiceExchange(
                reader: DeadlineReader(
                    descriptor: process.descriptor, wakeUp: wakeUp, deadline: .now + limit))
            return try exchange.run(process, question, buttons, options: options, limit: limit)
        }
    }
}

/// The conversation about one question. Blocks its thread.
private struct ChoiceExchange {
    /// The maximum number of lines. Correct programs send fewer.
    private static let maximumLines = 200
    /// The variant that shows two buttons only: GNOME's prompt has no third one.
    private static let twoButtonFlavor = "gnome3"
    private static let describing = "SETDESC"

    let reader: DeadlineReader
    private var lines = 0

    init(reader: DeadlineReader) { self.reader = reader }

    /// The end of an Assuan command.
    private enum Reply {
        case ok(data: String)
        case error(UInt32, String)
        case unanswered
    }

    mutating func run(
        _ process: borrowing PinentryProcess, _ question: String, _ buttons: PinentryChoice.Buttons,
        options: [String], limit: Duration
    ) throws(KeystoreError) -> PinentryChoice.Answer {
        switch try reply() {
        case .ok: break
        case .error(let code, let text): throw Self.unable(code, text)
        case .unanswered: return .unanswered
        }
        var hasThree = buttons.other != nil
        if case .ok(let flavor) = try command("GETINFO flavor", process),
            flavor == Self.twoButtonFlavor
        {
            hasThree = false
        }
        var commands = options.map { "OPTION \(AssuanLine.escaped($0))" }
        commands.append("SETTITLE \(PromptWording.defaultApplication)")
        commands.append("\(Self.describing) \(AssuanLine.escaped(question))")
        commands.append("SETOK \(AssuanLine.escaped(buttons.accept))")
        if hasThree, let other = buttons.other {
            commands.append("SETNOTOK \(AssuanLine.escaped(other))")
        }
        let cancel = hasThree ? buttons.cancel : buttons.other ?? buttons.cancel
        commands.append("SETCANCEL \(AssuanLine.escaped(cancel))")
        commands.append("SETTIMEOUT \(max(1, Int(limit.components.seconds)))")
        for text in commands {
            switch try command(text, process) {
            case .unanswered: return .unanswered
            // Without the question, a button is not consent.
            case .error(let code, let cause) where text.hasPrefix(Self.describing):
                throw Self.unable(code, cause)
            // Programs support different options and labels. Without one the prompt is only
            // plainer.
            case .ok, .error: break
            }
        }
        let answer: PinentryChoice.Answer
        switch try command("CONFIRM", process) {
        case .ok: answer = .accepted
        case .unanswered: return .unanswered
        case .error(let code, let text):
            // libgpg-error: the low 16 bits are the code; not confirmed, cancelled, fully
            // cancelled, timeout.
            switch code & 0xFFFF {
            case 114 where hasThree: answer = .other
            case 99 where hasThree, 198 where hasThree: answer = .cancelled
            case 114, 99, 198: answer = buttons.other == nil ? .cancelled : .otherOfTwo
            case 62: answer = .unanswered
            default: throw Self.unable(code, text)
            }
        }
        process.leave(reader.wakeUp)
        return answer
    }

    private mutating func command(_ text: String, _ process: borrowing PinentryProcess)
        throws(KeystoreError) -> Reply
    {
        guard process.send(text) else {
            throw PinentryDialogue.broken("pinentry closed the connection")
        }
        return try reply()
    }

    private mutating func reply() throws(KeystoreError) -> Reply {
        var data = ""
        var line = AssuanLine()
        while true {
            let (event, byte) = reader.readByte()
            switch event {
            case .bytes: break
            case .woken, .late: return .unanswered
            case .end, .failed: throw PinentryDialogue.broken("pinentry ended without an answer")
            }
            guard try line.append(byte) else { continue }
            lines += 1
            guard lines <= Self.maximumLines else {
                throw PinentryDialogue.broken("pinentry sent too many lines")
            }
            let (response, text) = line.withBytes { bytes in
                (
                    PinentryDialogue.Response(bytes),
                    String(decoding: bytes.dropFirst(2), as: UTF8.self)
                )
            }
            line.clear()
            switch response {
            case .ok: return .ok(data: data)
            case .error(let code, let text): return .error(code, text)
            case .data: data += text
            case .status, .comment: break
            case .inquiry, nil: throw PinentryDialogue.broken("pinentry sent an invalid line")
            }
        }
    }

    private static func unable(_ code: UInt32, _ text: String) -> KeystoreError {
        .unavailable(
            "pinentry cannot prompt here",
            recovery:
                "Run the program in a graphical session, or at a terminal with GPG_TTY set to its path.",
            underlying: .init(layer: "pinentry", rawCode: code, text: text))
    }
}
