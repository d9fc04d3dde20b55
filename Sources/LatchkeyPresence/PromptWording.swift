internal import FoundationEssentials
internal import Latchkey

/// What a person reads when asked for a PIN, the same at a terminal and in a pinentry window.
struct PromptWording: Sendable {
    static let title = "Latchkey"
    static let mismatch = "The two PINs differ."

    let isNew: Bool
    /// Why, for which container, and how many attempts are left.
    let description: String

    init(_ request: PINRequest) {
        isNew = request.purpose == .new
        let reason = Self.printable(request.context.reason)
        let wanted = isNew ? "asks for a new PIN" : "asks for your PIN"
        var text = "Latchkey \(wanted) to \(reason) (container ‘\(Self.printable(request.context.container))’)."
        switch request.attemptsLeft {
        case 1?: text += " One attempt is left before the TPM or token locks."
        case let left?: text += " \(left) attempts are left."
        case nil: break
        }
        description = text
    }

    var label: String { isNew ? "New PIN:" : "PIN:" }
    let repeatLabel = "New PIN again:"

    /// What to say about a line that can't be a PIN, before asking once more.
    static func complaint(_ error: KeystoreError) -> String {
        "That can't be a PIN: \(error.reason)."
    }

    /// Text from elsewhere must not move the cursor or end a protocol line.
    private static func printable(_ text: String) -> String {
        let scalars = text.unicodeScalars.prefix(200).map { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: Unicode.Scalar(UInt8(ascii: " "))
            default: scalar
            }
        }
        return String(String.UnicodeScalarView(scalars))
    }
}
