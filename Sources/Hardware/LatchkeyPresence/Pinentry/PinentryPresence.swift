internal import Glibc
public import Latchkey
internal import LatchkeyPlatform

/// Prompts for PINs with the system's pinentry program: a window on a desktop, or a form at a
/// terminal.
///
/// A new PIN is typed twice; the program compares the two if it can. Input that cannot be a PIN is
/// prompted for again, three times in all. The program gets the PIN and no other secret, and its
/// output is limited and checked.
public struct PinentryPresence: PresenceAuthority {
    private let program: String
    private let environment: [String: String]
    private let timeout: Duration
    private let application: String

    /// - Parameters:
    ///   - program: A path, or a name to look up in `PATH`; by default the value of
    ///     `PINENTRY_PROGRAM`, otherwise `pinentry`.
    ///   - environment: The program's environment. `GPG_TTY`, `TERM`, `DISPLAY`, `WAYLAND_DISPLAY`
    ///     and the locale are also passed as options.
    ///   - timeout: How long the user may take for one answer, in whole seconds.
    ///   - application: The name of the program in the prompts.
    public init(
        program: String? = nil, environment: [String: String], timeout: Duration = .seconds(120),
        application: String = "Latchkey"
    ) {
        self.program = program ?? environment["PINENTRY_PROGRAM"] ?? "pinentry"
        self.environment = environment
        self.timeout = timeout
        self.application = application
    }

    /// - Throws: `KeystoreError`: `unavailable` if the program is missing or cannot prompt,
    ///   `failed` if it does not follow the protocol, `invalidInput` if three answers in a row were
    ///   not valid PINs.
    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        let conversation = PinentryConversation(
            program: program, environment: environment, timeout: timeout,
            wording: PromptWording(request, application: application))
        return try await onOwnThread { wakeUp throws(KeystoreError) in try conversation.run(wakeUp)
        }
    }

    /// Writes a line to the process's standard error.
    public func notice(_ notice: PresenceNotice) async {
        NoticeLine(notice).write(to: STDERR_FILENO)
    }
}

/// Runs one PIN prompt with a pinentry program: moves bytes between the program and the
/// ``PinentryDialogue``. Blocks its thread.
struct PinentryConversation: Sendable {
    /// The time that the program may take in addition to the user's time.
    private static let grace: Duration = .seconds(3)

    let program: String
    let environment: [String: String]
    let timeout: Duration
    let wording: PromptWording

    func run(_ wakeUp: WakeUp) throws(KeystoreError) -> PINAnswer {
        let terminal = PinentrySettings(environment: environment)
        let process = try PinentryProcess(program: program, environment: environment)
        let settings = TerminalSettings(path: terminal.terminal)
        defer { settings?.restore() }
        let seconds = max(1, Int(timeout.components.seconds))
        var dialogue = PinentryDialogue(
            wording: wording, settings: terminal, timeoutSeconds: seconds)
        return try exchange(process, &dialogue, wakeUp)
    }

    private func exchange(
        _ process: borrowing PinentryProcess, _ dialogue: inout PinentryDialogue, _ wakeUp: WakeUp
    ) throws(KeystoreError) -> PINAnswer {
        var line = AssuanLine()
        var reader = DeadlineReader(
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
                    guard process.send(command) else {
                        throw PinentryDialogue.broken("pinentry closed the connection")
                    }
                    if command == PinentryDialogue.question {
                        reader = DeadlineReader(
                            descriptor: process.descriptor, wakeUp: wakeUp,
                            deadline: .now + timeout + Self.grace)
                    }
                case .finish(let result):
                    process.leave(wakeUp)
                    return try result.get()
                }
            case .woken: return .declined("the prompt was cancelled")
            case .late:
                return .declined("there was no answer within \(timeout.components.seconds) seconds")
            case .end, .failed: throw PinentryDialogue.broken("pinentry ended without an answer")
            }
        }
    }
}

/// The terminal or display for a pinentry program.
struct PinentrySettings: Sendable {
    /// The path of the terminal; nil without a terminal, or if its input is for the shell.
    let terminal: String?
    /// Whether there is a terminal, whose input is for the shell.
    let isInBackground: Bool
    /// `name=value`, for Assuan's `OPTION`.
    let options: [String]

    init(environment: [String: String], hasTerminal: Bool = true) {
        let set = environment["GPG_TTY"].flatMap { $0.isEmpty ? nil : $0 }
        let named = hasTerminal ? set ?? [0, 1, 2].lazy.compactMap(Self.name).first : nil
        isInBackground = named.map { TerminalJob.isInBackground(ofDeviceAt: $0) } ?? false
        terminal = isInBackground ? nil : named
        let locale = environment["LC_ALL"] ?? environment["LC_CTYPE"] ?? environment["LANG"]
        options = [
            ("ttyname", terminal), ("ttytype", environment["TERM"]), ("lc-ctype", locale),
            ("display", environment["DISPLAY"]),
        ].compactMap { name, value in value.map { "\(name)=\($0)" } }
    }

    /// The error of a program that cannot prompt.
    ///
    /// - Parameters:
    ///   - reason: One clause, for a terminal that it may use.
    ///   - recovery: The next step then.
    func obstacle(
        _ reason: String, recovery: Recovery, underlying: UnderlyingError? = nil
    ) -> KeystoreError {
        isInBackground
            ? QuietTerminal.background
            : .unavailable(reason, recovery: recovery, underlying: underlying)
    }

    private static func name(of descriptor: Int32) -> String? {
        var path = [CChar](repeating: 0, count: 256)
        guard ttyname_r(descriptor, &path, path.count) == 0 else { return nil }
        return String(decoding: path.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
