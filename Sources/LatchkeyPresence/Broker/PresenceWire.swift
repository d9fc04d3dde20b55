package import Latchkey

/// `org.latchkey.Presence1`, as client and service speak it.
package enum PresenceWire {
    package static let name = "org.latchkey.Presence1"
    package static let path = "/org/latchkey/Presence1"
    package static let interface = "org.latchkey.Presence1"
    package static let version: UInt32 = 1
    private static let errorPrefix = "org.latchkey.Presence1.Error."
    /// More than the service ever says in a line, in Unicode scalars.
    private static let longestText = 1000

    package enum Method: String, CaseIterable, Sendable {
        case state = "State"
        case terms = "Terms"
        case approve = "Approve"
        case cancel = "Cancel"
        case makePIN = "MakePIN"
        case resetPIN = "ResetPIN"
        case subscribe = "Subscribe"
    }

    /// The signal that says how it goes, to the caller and to those who subscribed as the same user.
    package static let progress = "Progress"

    /// It counts from whoever owns the service's name, and only the service's user may own it.
    static let progressRule = SignalRule(from: .owner(of: name), path: path, interface: interface, member: progress)

    static func prompt(_ arguments: [BusValue]) -> PresencePrompt? {
        guard arguments.count == 2, let progress = arguments[0].string.flatMap(FingerProgress.init),
            let text = arguments[1].string
        else { return nil }
        return PresencePrompt(progress: progress, text: String(oneLine: text, limit: longestText))
    }

    package static func target(_ method: Method) -> BusTarget {
        BusTarget(name, path, interface, method.rawValue)
    }

    // MARK: Errors

    /// What is no approval and no accident.
    private static let notRecognised = "NotRecognised"
    private static let declined = "Declined"

    package static func error(_ error: KeystoreError) -> BusError {
        BusError(name: errorPrefix + capitalized(error.code.description), message: "\(error.reason)\n\(error.recovery)")
    }

    package static func error(_ answer: ApprovalAnswer) -> BusError? {
        switch answer {
        case .approved: nil
        case .notRecognised: BusError(name: errorPrefix + notRecognised, message: "another finger was shown")
        case .declined(let why): BusError(name: errorPrefix + declined, message: why)
        }
    }

    static func answer(_ error: BusError) -> ApprovalAnswer? {
        switch error.name {
        case errorPrefix + notRecognised: .notRecognised
        case errorPrefix + declined: .declined(String(oneLine: error.message, limit: longestText))
        default: nil
        }
    }

    static func keystoreError(_ error: BusError, _ operation: String) -> KeystoreError {
        guard error.name.hasPrefix(errorPrefix) else {
            let underlying = KeystoreError.Underlying(layer: "dbus", text: "\(error.name): \(error.message)")
            return error.isAbsence
                ? KeystoreError(
                    operation: operation, code: .unavailable, reason: "the presence broker is not running",
                    recovery: "Install and start latchkey-presenced.", underlying: underlying)
                : KeystoreError(
                    operation: operation, code: .transient, reason: "the presence broker did not answer",
                    recovery: "Try again. If it fails again, check latchkey-presenced: systemctl status "
                        + "latchkey-presenced.", underlying: underlying)
        }
        let word = error.name.dropFirst(errorPrefix.count)
        let code = codes.first { capitalized($0.description) == word } ?? .failed
        let lines = error.message.split(separator: "\n", maxSplits: 1).map { String(oneLine: $0, limit: longestText) }
        return KeystoreError(
            operation: operation, code: code, reason: lines.first ?? "the presence broker refused",
            recovery: lines.count > 1 ? lines[1] : "Try again.",
            underlying: .init(layer: "dbus", text: error.name))
    }

    private static let codes: [KeystoreError.Code] = [
        .unavailable, .notEnrolled, .lockedOut, .unsupported, .conflict, .invalidInput, .refused, .notFound,
        .wrongDevice,
        .damaged, .transient, .failed, .passcodeNotSet, .invalidated, .wrongState, .cancelled, .wrongProof,
    ]

    private static func capitalized(_ word: String) -> String { word.prefix(1).uppercased() + word.dropFirst() }
}
