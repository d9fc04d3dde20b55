internal import FoundationEssentials
internal import Latchkey

/// What a person reads when asked for a PIN, the same at a terminal and in a pinentry window.
struct PromptWording: Sendable {
    static let title = "Latchkey"
    static let mismatch = "The two PINs differ."

    let isNew: Bool
    let label: String
    /// Why, for which container, and how many attempts are left.
    let description: String

    init(_ request: PINRequest) {
        isNew = request.purpose == .new
        let reason = Self.foreign(request.context.reason)
        let wanted: String
        switch request.purpose {
        case .current: (wanted, label) = ("your PIN", "PIN:")
        case .new: (wanted, label) = ("a new PIN", "New PIN:")
        case .securityOfficer:
            (wanted, label) = ("the token's security officer PIN (YubiKey: its management key)", "Officer PIN:")
        case .unblocking: (wanted, label) = ("the token's unblocking code (PUK)", "PUK:")
        }
        var text =
            "Latchkey asks for \(wanted) to \(reason) (container ‘\(Self.foreign(request.context.container))’)."
        switch request.attemptsLeft {
        case 1?: text += " One attempt is left before the TPM or token locks."
        case let left?: text += " \(left) attempts are left."
        case nil: break
        }
        description = text
    }

    let repeatLabel = "New PIN again:"

    /// What to say about a line that can't be a PIN, before asking once more.
    static func complaint(_ error: KeystoreError) -> String {
        "That can't be a PIN: \(error.reason)."
    }

    /// What to do at the hardware itself, in a line.
    static func text(of notice: PresenceNotice) -> String {
        let reason = foreign(notice.context.reason)
        return switch notice.action {
        case .useReader: "Use the pad or the finger sensor of the reader or token to \(reason)."
        case .touch: "The token waits for a touch: touch it to \(reason)."
        }
    }

    /// Text from elsewhere must not move the cursor or end a protocol line.
    private static func foreign(_ text: String) -> String { String(oneLine: text, limit: 200) }
}
