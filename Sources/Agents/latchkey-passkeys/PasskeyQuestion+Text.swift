import Latchkey
import LatchkeyPasskeys

extension PasskeyQuestion {
    /// Whether one window can state the question and offer the PIN while the reader waits for a
    /// finger. A new passkey with a PIN requires the PIN, as every new key does: another program
    /// could have set the PIN.
    var offersFingerOrPIN: Bool {
        if case .signIn = purpose { accounts.count <= 1 } else { false }
    }

    /// The failure, as the beginning of a sentence.
    var failure: String {
        if case .create = purpose {
            "No passkey was created for \(place)"
        } else {
            "The passkey for \(place) was not used"
        }
    }

    /// The text of the window: the program, the site and the account. The site's name is the one
    /// that the program states. All names of others are in quotation marks.
    var text: String {
        let requester =
            openers.map {
                $0.isOne
                    ? "The program \($0.quoted)" : "One of \($0.count) programs, \($0.quoted),"
            } ?? "A program"
        let account = accounts.count == 1 ? " as \(String(quoted: accounts[0], limit: 64))" : ""
        let secret =
            usesPRF
            ? " The site also gets a secret from this passkey, for example to decrypt data." : ""
        return switch purpose {
        case .create(let replaces):
            "\(requester) asks to create a passkey on this computer for \(place)\(account)."
                + (replaces ? " It replaces the existing passkey of this account." : "") + secret
        case .signIn:
            "\(requester) asks to log in to \(place)\(account) with a passkey of this computer."
                + (accounts.count > 1 ? " There are \(accounts.count) accounts." : "") + secret
        case .alreadyRegistered:
            "\(requester) asks to create a passkey for \(place). This computer already has one for an account there."
        case .selectDevice:
            "\(requester) asks whether to use this computer or another security key."
        }
    }
}
