internal import FoundationEssentials
internal import Glibc
package import Latchkey

/// The text of a PIN prompt, the same at a terminal and in a pinentry window.
package struct PromptWording: Sendable {
    package static let defaultApplication = "Latchkey"
    static let mismatch = "The two PINs differ."
    static let differ = KeystoreError.invalidInput("the two PINs differ").during("read a new PIN")

    let isNew: Bool
    /// The minimum length of a new PIN.
    private let minimum: Int
    /// The hardware's own rule for a new PIN, as a sentence; nil without one.
    private let hint: String?
    /// The name of the program that asks.
    let application: String
    let label: String
    /// The reason, the container and the attempts left.
    package let description: String

    package init(_ request: PINRequest, application: String = defaultApplication) {
        self.application = Self.foreign(application)
        isNew = request.purpose == .new
        minimum = request.minimumCharacters
        hint = isNew ? request.hint : nil
        let reason = Self.foreign(request.context.reason)
        let wanted: String
        switch request.purpose {
        case .current: (wanted, label) = ("your PIN", "PIN:")
        case .new: (wanted, label) = ("a new PIN", "New PIN:")
        case .securityOfficer:
            (wanted, label) =
                switch request.officerSecret {
                case .managementKey(orPIN: false)?:
                    ("the card's management key (48 hexadecimal digits)", "Management key:")
                case .managementKey(orPIN: true)?:
                    (
                        "the card's management key (48 hexadecimal digits, or the PIN if it protects the key)",
                        "Management key:"
                    )
                case .protectingPIN?: ("the card's PIN, which protects its management key,", "PIN:")
                case nil: ("the token's security officer PIN", "Officer PIN:")
                }
        case .unblocking: (wanted, label) = ("the token's unblocking code (PUK)", "PUK:")
        case .lockoutPassword: (wanted, label) = ("the TPM's lockout password", "Lockout password:")
        }
        var text =
            "\(self.application) asks for \(wanted) to \(reason) (container ‘\(Self.foreign(request.context.container))’)."
        switch request.attemptsLeft {
        case 1?: text += " One attempt is left before the TPM or token locks."
        case let left?: text += " \(left) attempts are left."
        case nil: break
        }
        let rule = isNew ? "Use at least \(minimum) characters." : nil
        if let hint = request.hint ?? rule { text += " \(hint)" }
        description = text
    }

    let repeatLabel = "New PIN again:"

    /// The typed PIN.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` if the line cannot be a PIN, or is too
    ///   short for a new one.
    func pin(in line: borrowing SecretBuffer) throws(KeystoreError) -> PIN {
        guard isNew else { return try line.pin() }
        // No character has less than one byte.
        let pin = try line.count < minimum ? nil : line.pin()
        guard let pin, pin.characterCount >= minimum else {
            throw .invalidInput("the PIN has fewer than \(minimum) characters").during(
                "read a new PIN")
        }
        return pin
    }

    /// The message for a line that cannot be a PIN, before the next prompt.
    func complaint(_ error: KeystoreError) -> String {
        "That cannot be a PIN: \(error.reason)." + (hint.map { " \($0)" } ?? "")
    }

    /// Removes control characters, so that another program's text cannot move the cursor or end a
    /// protocol line.
    fileprivate static func foreign(_ text: String) -> String { String(oneLine: text, limit: 200) }
}

extension PresenceNotice {
    /// The sentences for the user: the action at the hardware, or the cause of the lockout and the
    /// next step.
    package var sentence: String {
        switch self {
        case .useReader(let prompt):
            "Use the pad or the finger sensor of the reader or token to \(PromptWording.foreign(prompt.reason))."
        case .touch(let prompt):
            "The token waits for a touch: touch it to \(PromptWording.foreign(prompt.reason))."
        case .lockedOut(let reason, let recovery, _):
            "Could not verify the owner: \(PromptWording.foreign(reason)). \(PromptWording.foreign(recovery))"
        }
    }
}

/// A line for the user, on a terminal or on standard error. A failure to write it is ignored,
/// because the hardware continues to wait.
struct NoticeLine {
    private let bytes: [UInt8]

    init(_ notice: PresenceNotice) {
        bytes = Array("\(notice.sentence)\n".utf8)
    }

    func write(to descriptor: Int32) {
        _ = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
    }

    func write(toDeviceAt path: String) {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        write(to: descriptor)
    }
}
