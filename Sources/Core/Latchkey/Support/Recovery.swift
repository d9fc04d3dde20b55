/// The next step after an error: sentences, and the actions of a program that do it.
///
/// The sentences are complete without the actions, and name no command or option: an app shows
/// them. The command-line tool and the services add the command of each action.
package struct Recovery: Hashable, Sendable {
    /// The sentences.
    package let text: String
    package let actions: [Action]

    package init(_ text: String, _ actions: Action...) {
        self.init(text, actions)
    }

    private init(_ text: String, _ actions: [Action]) {
        (self.text, self.actions) = (text, actions)
    }

    /// Joins two parts of one sentence, as for strings.
    package static func + (left: Recovery, right: Recovery) -> Recovery {
        Recovery(left.text + right.text, left.actions + right.actions)
    }

    /// These sentences, followed by others.
    package func then(_ next: Recovery) -> Recovery { self + " " + next }

    /// These sentences, with another action.
    package func offering(_ action: Action) -> Recovery {
        Recovery(text, actions + [action])
    }

    /// An action of a program of this package, which has a command or an option for it.
    package enum Action: String, CaseIterable, Sendable {
        case allowShortPIN, choosePINSource, chooseTPM, chooseToken, chooseHardware
        case diagnose, reportDiagnosis, endLockout, resetStore
        case listTokens, initializeToken, listTokenKeys, chooseSlot, eraseToken, useModuleHere
        case changeTokenPIN, initializeTokenPIN, unblockPIN, enterPINHere, enterPINAtReader
        case forgetKey, choosePolicy, requireFinger, listSSHKeys, offerWithoutVerification
        case restartReader, listPasskeys, deletePasskey, storeVaultWithPIN, omitShares
        case showAttestation, chooseIssuer, enrolAttestation, forgetAttestation, enrolBroker
        case chooseServer, login, forwardLogin, authenticate, enable, disable, forceLogout
    }
}

extension Recovery: ExpressibleByStringInterpolation {
    package init(stringLiteral text: String) {
        self.init(text)
    }
}

extension Recovery {
    /// The next step after an invalid argument.
    package static let correctValue: Recovery = "Correct the value and try again."
}
