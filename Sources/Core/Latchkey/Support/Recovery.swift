/// The next step after an error: sentences, and the actions of a program that do it.
///
/// The sentences are complete without the actions, and name no command, option or call. An app shows
/// ``text``. The command-line tool and the services add the command of each action instead.
package struct Recovery: Hashable, Sendable {
    /// The sentences for every program.
    package let sentences: String
    package let actions: [Action]

    /// The sentences for an app, with the calls of the library that do an action.
    package var text: String {
        ([sentences] + actions.compactMap(\.call)).joined(separator: " ")
    }

    package init(_ sentences: String, _ actions: Action...) {
        self.init(sentences, actions)
    }

    private init(_ sentences: String, _ actions: [Action]) {
        (self.sentences, self.actions) = (sentences, actions)
    }

    /// Joins two parts of one sentence, as for strings.
    package static func + (left: Recovery, right: Recovery) -> Recovery {
        Recovery(left.sentences + right.sentences, left.actions + right.actions)
    }

    /// These sentences, followed by others.
    package func then(_ next: Recovery) -> Recovery { self + " " + next }

    /// These sentences, with another action.
    package func offering(_ action: Action) -> Recovery {
        Recovery(sentences, actions + [action])
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
        case chooseServer, login, forwardLogin, authenticate, enable, disable, replaceLoginKey
        case forceLogout, forceDisable
    }
}

extension Recovery.Action {
    /// A sentence for an app that names the library's call; nil without one.
    fileprivate var call: String? {
        switch self {
        case .resetStore:
            "To archive the records of all containers and empty the store, call RecordStore.startOver()."
        case .replaceLoginKey:
            "Log in another way; then Container.enableBiometric(replacing: true) replaces the login's key."
        case .forceLogout: "Container.logout(force: true) removes the login from this device."
        case .forceDisable:
            "Container.disableBiometric(force: true) succeeds without a request to the server."
        default: nil
        }
    }
}

extension Recovery: ExpressibleByStringInterpolation {
    package init(stringLiteral sentences: String) {
        self.init(sentences)
    }
}

extension Recovery {
    /// The next step after an invalid argument.
    package static let correctValue: Recovery = "Correct the value and try again."
}
