import FoundationEssentials
import X509

@testable import Latchkey
@testable import LatchkeyCertificates
@testable import LatchkeyPresence

extension FuzzTarget {
    /// Distinguished names of certificates, as users type them.
    static let names = FuzzTarget("names") { (input) throws(Contradiction) in
        let text = String(decoding: input, as: UTF8.self)
        _ = try? DistinguishedName(rfc4514: text).description
    }

    /// The lines that a pinentry program writes.
    static let pinentryLines = FuzzTarget("pinentry-lines") { (input) throws(Contradiction) in
        for purpose in [PINRequest.Purpose.current, .new] {
            let request = PINRequest(
                purpose: purpose, context: PromptContext(reason: "fuzz"), attemptsLeft: 3)
            var dialogue = PinentryDialogue(
                wording: PromptWording(request),
                settings: PinentrySettings(environment: ["DISPLAY": ":0"]), timeoutSeconds: 60)
            var line = AssuanLine()
            for byte in input {
                guard let isComplete = try? line.append(byte) else { break }
                guard isComplete else { continue }
                let action = line.withBytes { dialogue.receive($0) }
                line.clear()
                switch action {
                case .wait: continue
                case .send(let command):
                    try expect(
                        command.utf8.count < AssuanLine.maximumBytes,
                        "a command is too long for a line")
                    try expect(!command.contains("\n"), "a command is two")
                    continue
                case .finish: break
                }
                break
            }
        }
        let escaped = AssuanLine.escaped(String(decoding: input, as: UTF8.self))
        try expect(!escaped.utf8.contains { $0 < 0x20 }, "an argument has a control character")
    }

    /// Method calls from a bus, read as every message that client and broker read.
    static let busMessages = FuzzTarget("bus-messages") { (input) throws(Contradiction) in
        for arguments in HostileBus.arguments(of: input) {
            if let request = PresenceWire.request(arguments) {
                try expect(
                    PresenceWire.request(PresenceWire.arguments(request)) == request,
                    "a request is written otherwise")
            }
            if let state = PresenceWire.state(arguments), case .lockedOut(let until?) = state {
                _ = until.formatted(.iso8601)
            }
            _ = PresenceWire.approval(arguments)
            _ = PresenceWire.terms(arguments)
            _ = PresenceWire.unsetPIN(arguments)
            _ = PresenceWire.prompt(arguments)
            _ = PresenceWire.policy(arguments)
            guard arguments.count == 2, let name = arguments[0].string,
                let message = arguments[1].string
            else {
                continue
            }
            _ = PresenceWire.keystoreError(BusError(name: name, message: message))
            _ = PresenceWire.answer(BusError(name: name, message: message))
        }
    }
}
