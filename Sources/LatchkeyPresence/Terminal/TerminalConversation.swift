internal import Glibc
internal import Latchkey

/// One request for a PIN, carried through at a terminal. Blocks its thread.
struct TerminalConversation: Sendable {
    let path: String
    let timeout: Duration
    let wording: PromptWording

    private enum Line {
        case typed(PIN)
        case unusable(KeystoreError)
        case declined(String)
        /// To be raised again once the terminal is put back.
        case interrupted(Int32)
    }

    func hold(_ wakeUp: WakeUp) -> Result<PINAnswer, KeystoreError> {
        var signal: Int32?
        let result = SignalCatcher.whileCatching(into: wakeUp) {
            Result { () throws(KeystoreError) in
                let terminal = try QuietTerminal.open(path: path)
                return try ask(terminal, wakeUp, &signal)
            }
        }
        if let signal { kill(getpid(), signal) }
        return result
    }

    private func ask(
        _ terminal: borrowing QuietTerminal, _ wakeUp: WakeUp, _ signal: inout Int32?
    ) throws(KeystoreError) -> PINAnswer {
        terminal.silence()
        terminal.show(wording.description + "\n")
        var objection = KeystoreError.invalidInput("read a PIN", "none was given")
        for _ in 0..<TerminalPresence.rounds {
            switch try line(wording.label, terminal, wakeUp) {
            case .unusable(let error):
                objection = error
                terminal.show(PromptWording.complaint(error) + "\n")
            case .declined(let why): return .declined(why)
            case .interrupted(let number):
                signal = number
                return .declined("it was interrupted")
            case .typed(let pin):
                guard wording.isNew else { return .pin(pin) }
                switch try line(wording.repeatLabel, terminal, wakeUp) {
                case .typed(pin): return .pin(pin)
                case .typed, .unusable:
                    objection = .invalidInput("read a new PIN", "the two PINs differ")
                    terminal.show(PromptWording.mismatch + "\n")
                case .declined(let why): return .declined(why)
                case .interrupted(let number):
                    signal = number
                    return .declined("it was interrupted")
                }
            }
        }
        throw objection
    }

    private func line(
        _ label: String, _ terminal: borrowing QuietTerminal, _ wakeUp: WakeUp
    ) throws(KeystoreError) -> Line {
        terminal.show(label + " ")
        let reader = PatientReader(descriptor: terminal.descriptor, wakeUp: wakeUp, deadline: .now + timeout)
        var line = TerminalLine()
        while true {
            let (event, byte) = reader.readByte()
            switch event {
            case .bytes:
                switch line.receive(byte) {
                case .wait: break
                case .finished:
                    terminal.show("\n")
                    do throws(KeystoreError) { return .typed(try line.text.pin()) } catch { return .unusable(error) }
                case .declined:
                    terminal.show("\n")
                    return .declined("you declined")
                case .suspend: suspend(terminal, label, &line)
                }
            case .woken(UInt8(SIGTSTP)): suspend(terminal, label, &line)
            case .woken(WakeUp.cancelled):
                terminal.show("\n")
                return .declined("it was cancelled")
            case .woken(let number):
                terminal.show("\n")
                return .interrupted(Int32(number))
            case .late:
                terminal.show("\n")
                return .declined("nobody answered within \(timeout.components.seconds) seconds")
            case .end: return .declined("the terminal was closed")
            case .failed(let number):
                throw .unavailable(
                    "the terminal can't be read: \(systemReason(number))", recovery: KeystoreError.otherPINSource)
            }
        }
    }

    /// Lets the shell have the terminal until the job is continued, then asks afresh.
    private func suspend(_ terminal: borrowing QuietTerminal, _ label: String, _ line: inout TerminalLine) {
        line.clear()
        terminal.show("\n")
        terminal.restore()
        kill(getpid(), SIGSTOP)
        terminal.silence()
        terminal.show(wording.description + "\n" + label + " ")
    }
}
