internal import FoundationEssentials
internal import Latchkey

/// The conversation with a pinentry program: a state machine without input and output.
struct PinentryDialogue: ~Copyable {
    enum Action {
        /// Send this command, and pass the lines of the answer.
        case send(String)
        /// Pass the next line.
        case wait
        case finish(Result<PINAnswer, KeystoreError>)
    }

    private enum Phase {
        case greeting
        /// A set-up command was sent.
        case setting(String)
        case asking
    }

    static let question = "GETPIN"
    /// The maximum number of lines for one prompt. Correct programs send fewer.
    private static let maximumLines = 200

    private let wording: PromptWording
    private let settings: PinentrySettings
    private var phase = Phase.greeting
    private var commands: ArraySlice<String>
    private var answer = SecretBuffer()
    /// The first input of a new PIN, if the program does not compare the two itself.
    private var first: PIN?
    private var programRepeated = false
    private var roundsLeft = 3
    private var lines = 0

    init(wording: PromptWording, settings: PinentrySettings, timeoutSeconds: Int) {
        (self.wording, self.settings) = (wording, settings)
        var commands = settings.options.map { "OPTION \(AssuanLine.escaped($0))" }
        commands.append("SETTITLE \(AssuanLine.escaped(wording.application))")
        commands.append("SETDESC \(AssuanLine.escaped(wording.description))")
        commands.append("SETPROMPT \(wording.label)")
        commands.append("SETTIMEOUT \(timeoutSeconds)")
        if wording.isNew {
            commands.append("SETREPEAT \(wording.repeatLabel)")
            commands.append("SETREPEATERROR \(PromptWording.mismatch)")
        }
        self.commands = (commands + [Self.question])[...]
    }

    /// Handles one line of the program, without its line feed.
    mutating func receive(_ line: UnsafeRawBufferPointer) -> Action {
        lines += 1
        guard lines <= Self.maximumLines else {
            return .finish(.failure(Self.broken("pinentry sent too many lines")))
        }
        switch Response(line) {
        case .ok: return proceed()
        case .error(let code, let text): return refused(code, text)
        case .data(let bytes): return collect(UnsafeRawBufferPointer(rebasing: line[bytes]))
        case .status(let keyword):
            if keyword == "PIN_REPEATED" { programRepeated = true }
            return .wait
        case .comment: return .wait
        case .inquiry: return .send("CAN")
        case nil: return .finish(.failure(Self.broken("pinentry sent an invalid line")))
        }
    }

    private mutating func proceed() -> Action {
        guard case .asking = phase else { return next() }
        defer { answer.clear() }
        let pin: PIN
        do throws(KeystoreError) {
            pin = try wording.pin(in: answer)
        } catch {
            return again(wording.complaint(error), otherwise: error)
        }
        guard wording.isNew, !programRepeated else { return .finish(.success(.pin(pin))) }
        guard let first else {
            self.first = pin
            commands = ["SETPROMPT \(wording.repeatLabel)", Self.question]
            return next()
        }
        guard first == pin else {
            return again(PromptWording.mismatch, otherwise: PromptWording.differ)
        }
        return .finish(.success(.pin(pin)))
    }

    private mutating func next() -> Action {
        guard let command = commands.popFirst() else { return .wait }
        programRepeated = false
        phase = command == Self.question ? .asking : .setting(command)
        return .send(command)
    }

    private mutating func again(_ complaint: String, otherwise error: KeystoreError) -> Action {
        roundsLeft -= 1
        guard roundsLeft > 0 else { return .finish(.failure(error)) }
        first = nil
        commands = [
            "SETERROR \(AssuanLine.escaped(complaint))", "SETPROMPT \(wording.label)",
            Self.question,
        ]
        return next()
    }

    private mutating func collect(_ escaped: UnsafeRawBufferPointer) -> Action {
        guard case .asking = phase else {
            return .finish(.failure(Self.broken("pinentry sent unexpected data")))
        }
        var rest = escaped[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                answer.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(Self.hexValue),
                let low = rest.popFirst().flatMap(Self.hexValue)
            else {
                return .finish(.failure(Self.broken("pinentry sent data with an invalid escape")))
            }
            answer.append(high << 4 | low)
        }
        return .wait
    }

    private mutating func refused(_ code: UInt32, _ text: String) -> Action {
        switch phase {
        case .greeting: .finish(.failure(unable(code, text)))
        // Programs support different options. Without an option the prompt is only plainer.
        case .setting: next()
        case .asking: .finish(outcome(of: code, text))
        }
    }

    /// libgpg-error: the low 16 bits are the code, the upper ones the source.
    private func outcome(of error: UInt32, _ text: String) -> Result<PINAnswer, KeystoreError> {
        switch error & 0xFFFF {
        case 99, 198, 114: .success(.declined(PINAnswer.userDeclined))
        case 62: .success(.declined("there was no answer in time"))
        default: .failure(unable(error, text))
        }
    }

    private func unable(_ code: UInt32, _ text: String) -> KeystoreError {
        settings.obstacle(
            "pinentry cannot prompt here",
            recovery: Recovery("At a terminal, set GPG_TTY to its path.").then(
                KeystoreError.orOtherPINSource),
            underlying: .init(layer: "pinentry", rawCode: code, text: text))
    }

    static func broken(_ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "prompt for the PIN with pinentry", code: .failed, reason: reason,
            recovery:
                Recovery("Check the program that PINENTRY_PROGRAM names.").then(
                    KeystoreError.orOtherPINSource))
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        Character(UnicodeScalar(byte)).hexDigitValue.map { UInt8($0) }
    }
}

extension PinentryDialogue {
    /// One line of an Assuan server.
    enum Response {
        case ok
        case error(UInt32, String)
        /// The range of the escaped data in the line.
        case data(Range<Int>)
        case status(String)
        case comment
        case inquiry

        init?(_ line: UnsafeRawBufferPointer) {
            // A PIN must not be copied into a string.
            if line.starts(with: "D ".utf8) {
                self = .data(2..<line.count)
                return
            }
            if line.first == UInt8(ascii: "#") {
                self = .comment
                return
            }
            let words = String(decoding: line, as: UTF8.self).split(separator: " ", maxSplits: 2)
            switch words.first {
            case "OK": self = .ok
            case "ERR":
                guard words.count > 1, let code = UInt32(words[1]) else { return nil }
                let text =
                    words.count > 2
                    ? words[2].unicodeScalars.prefix(100).filter { $0.value >= 32 } : []
                self = .error(code, String(String.UnicodeScalarView(text)))
            case "S": self = .status(words.count > 1 ? String(words[1]) : "")
            case "INQUIRE": self = .inquiry
            case "D": self = .data(line.count..<line.count)
            default: return nil
            }
        }
    }
}

/// One line from an Assuan server: at most 1000 bytes with its line feed (Assuan manual, section
/// "Server responses"). It may contain a PIN, so it is cleared.
struct AssuanLine: ~Copyable {
    static let maximumBytes = 1000

    private var text = SecretBuffer(capacity: maximumBytes)

    /// - Returns: Whether the line is complete.
    /// - Throws: ``KeystoreError`` with code `failed` if the line is too long.
    mutating func append(_ byte: UInt8) throws(KeystoreError) -> Bool {
        if byte == UInt8(ascii: "\n") { return true }
        text.append(byte)
        guard !text.isOverfull else {
            throw PinentryDialogue.broken("pinentry sent a line that is too long")
        }
        return false
    }

    func withBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R { text.withBytes(body) }

    mutating func clear() { text.clear() }

    /// Escapes a command's argument: `%`, line breaks and other control characters as `%XX`. Cuts
    /// it at a character so that the line fits.
    static func escaped(_ text: String) -> String {
        var result = ""
        for character in text {
            var piece = ""
            for byte in String(character).utf8
            where byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "%") {
                piece += "%" + (byte < 0x10 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
            if piece.isEmpty { piece = String(character) }
            guard result.utf8.count + piece.utf8.count <= maximumBytes - 50 else { break }
            result += piece
        }
        return result
    }
}
