internal import Latchkey

/// The conversation about one question or message. Blocks its thread. Its functions return nil if
/// there was no answer in time, or the task was cancelled.
struct PinentryExchange {
    /// The maximum number of lines. Correct programs send fewer.
    private static let maximumLines = 200
    /// The programs with a question whose default button is the refusal. Return and Escape refuse.
    private static let refusingFlavors: Set<String> = ["gtk2", "qt", "qt4", "qt5", "qt6"]
    /// The variant that shows two buttons only: GNOME's prompt has no third one.
    private static let twoButtonFlavor = "gnome3"
    /// The programs that use a terminal; graphical ones without a display have the second one as a
    /// suffix.
    private static let terminalFlavors = ["tty", "curses"]
    private static let describing = "SETDESC"
    /// The number of attempts to type a word.
    private static let rounds = 3

    private let reader: DeadlineReader
    private let settings: PinentrySettings
    private let limit: Duration
    private var flavor = ""
    private var lines = 0

    init(reader: DeadlineReader, settings: PinentrySettings, limit: Duration) {
        (self.reader, self.settings, self.limit) = (reader, settings, limit)
    }

    /// The end of an Assuan command.
    private enum Reply {
        case ok(data: String)
        case error(UInt32, String)
        case unanswered
    }

    /// Reads the greeting and the program's kind.
    ///
    /// - Returns: Whether the program answered in time.
    mutating func begin(_ process: borrowing PinentryProcess) throws(KeystoreError) -> Bool {
        switch try reply() {
        case .ok: break
        case .error(let code, let text): throw unable(code, text)
        case .unanswered: return false
        }
        switch try command("GETINFO flavor", process) {
        case .ok(let data): flavor = data
        // An old program.
        case .error: break
        case .unanswered: return false
        }
        return true
    }

    mutating func check(_ process: borrowing PinentryProcess) throws(KeystoreError) -> Bool? {
        let kind = flavor.split(separator: ":").last.map(String.init) ?? ""
        guard settings.terminal != nil || !Self.terminalFlavors.contains(kind) else {
            throw .unavailable(
                "pinentry can show no window here: it has no display, or is a program for terminals",
                recovery:
                    "Install a pinentry program for your desktop, for example pinentry-gnome3 or pinentry-qt. Start the program in a graphical session."
            )
        }
        return true
    }

    mutating func show(_ message: String, _ process: borrowing PinentryProcess)
        throws(KeystoreError) -> Bool?
    {
        guard try describe(message, accept: "OK", process) else { return nil }
        // A program without the command shows no message.
        if case .unanswered = try command("MESSAGE", process) { return nil }
        return true
    }

    mutating func ask(
        _ question: String, _ buttons: PinentryChoice.Buttons, isConsent: Bool,
        _ process: borrowing PinentryProcess
    ) throws(KeystoreError) -> PinentryChoice.Answer? {
        guard !isConsent || Self.refusingFlavors.contains(flavor) else {
            return try askForWord(question, buttons, process)
        }
        let hasThree = buttons.other != nil && flavor != Self.twoButtonFlavor
        let cancel = hasThree ? buttons.cancel : buttons.other ?? buttons.cancel
        guard
            try describe(
                question, accept: buttons.accept, other: hasThree ? buttons.other : nil,
                cancel: cancel, process)
        else { return nil }
        switch try command("CONFIRM", process) {
        case .ok: return .accepted
        case .unanswered: return nil
        case .error(let code, let text):
            switch Refusal(code) {
            case .notConfirmed where hasThree: return .other
            case .cancelled where hasThree: return .cancelled
            case .notConfirmed, .cancelled: return buttons.other == nil ? .cancelled : .otherOfTwo
            case .late: return nil
            case nil: throw unable(code, text)
            }
        }
    }

    /// Only the word `yes` is consent, so that neither Return nor Escape is. Asks again after any
    /// other word than `no`, but not after Return alone.
    private mutating func askForWord(
        _ question: String, _ buttons: PinentryChoice.Buttons, _ process: borrowing PinentryProcess
    ) throws(KeystoreError) -> PinentryChoice.Answer? {
        let (yes, no) = ("yes", "no")
        let text = "\(question)\n\nTo agree, type \(yes) and choose “\(buttons.accept)”."
        guard
            try describe(
                text, accept: buttons.accept, cancel: buttons.other ?? buttons.cancel, process,
                also: ["SETPROMPT \(yes)/\(no):"])
        else { return nil }
        let refusal = buttons.other == nil ? PinentryChoice.Answer.cancelled : .otherOfTwo
        for _ in 0..<Self.rounds {
            switch try command("GETPIN", process, among: [yes, no]) {
            case .ok(yes): return .accepted
            case .ok(no): return .cancelled
            case .ok(""): return refusal
            case .ok:
                let hint = "SETERROR Type \(yes) or \(no)."
                if case .unanswered = try command(hint, process) { return nil }
            case .unanswered: return nil
            case .error(let code, let text):
                switch Refusal(code) {
                case .notConfirmed, .cancelled: return refusal
                case .late: return nil
                case nil: throw unable(code, text)
                }
            }
        }
        return refusal
    }

    /// libgpg-error: the low 16 bits are the code.
    private enum Refusal {
        case notConfirmed, cancelled, late

        init?(_ code: UInt32) {
            switch code & 0xFFFF {
            case 114: self = .notConfirmed
            case 99, 198: self = .cancelled
            case 62: self = .late
            default: return nil
            }
        }
    }

    /// - Returns: Whether the program answered in time.
    private mutating func describe(
        _ text: String, accept: String, other: String? = nil, cancel: String? = nil,
        _ process: borrowing PinentryProcess, also further: [String] = []
    ) throws(KeystoreError) -> Bool {
        var commands = settings.options.map { "OPTION \(AssuanLine.escaped($0))" }
        commands.append("SETTITLE \(PromptWording.defaultApplication)")
        commands.append("\(Self.describing) \(AssuanLine.escaped(text))")
        commands.append("SETOK \(AssuanLine.escaped(accept))")
        if let other { commands.append("SETNOTOK \(AssuanLine.escaped(other))") }
        if let cancel { commands.append("SETCANCEL \(AssuanLine.escaped(cancel))") }
        commands.append("SETTIMEOUT \(max(1, Int(limit.components.seconds)))")
        for text in commands + further {
            switch try command(text, process) {
            case .unanswered: return false
            // Without the question, a button is not consent.
            case .error(let code, let cause) where text.hasPrefix(Self.describing):
                throw unable(code, cause)
            // Programs support different options and labels. Without one the prompt is only
            // plainer.
            case .ok, .error: break
            }
        }
        return true
    }

    private mutating func command(
        _ text: String, _ process: borrowing PinentryProcess, among words: [String]? = nil
    ) throws(KeystoreError) -> Reply {
        guard process.send(text) else {
            throw PinentryDialogue.broken("pinentry closed the connection")
        }
        return try reply(among: words)
    }

    /// - Parameter words: The words to recognize. Other data is not kept: the user may have typed a
    ///   secret for another window.
    private mutating func reply(among words: [String]? = nil) throws(KeystoreError) -> Reply {
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
                let rest = bytes.dropFirst(2)
                let text =
                    words.map { words in
                        words.first { $0.utf8.elementsEqual(rest.lazy.map { $0 | 0x20 }) } ?? "?"
                    } ?? String(decoding: rest, as: UTF8.self)
                return (PinentryDialogue.Response(bytes), text)
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

    private func unable(_ code: UInt32, _ text: String) -> KeystoreError {
        settings.obstacle(
            "pinentry cannot prompt here",
            recovery:
                "Run the program in a graphical session, or at a terminal with GPG_TTY set to its path.",
            underlying: .init(layer: "pinentry", rawCode: code, text: text))
    }
}
