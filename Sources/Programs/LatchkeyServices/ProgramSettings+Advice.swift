internal import Latchkey

/// Next steps that the administrator's fixed settings forbid.
extension ProgramSettings {
    /// The error without them, so that no text advises what ends with another error.
    package func permitted(_ error: any Error) -> any Error {
        guard let error = error as? KeystoreError else { return error }
        let actions = error.recoveryAction.actions
        let kept = actions.filter { !forbids($0) }
        guard kept.count < actions.count else { return error }
        return error.with(
            recovery: kept.reduce(Recovery(error.recoveryAction.sentences)) { $0.offering($1) })
    }

    private func forbids(_ action: Recovery.Action) -> Bool {
        func isFixed(_ setting: Setting) -> Bool {
            values.administrators?.fixed.keys.contains(setting) == true
        }
        return switch action {
        case .choosePolicy, .storeVaultWithPIN:
            !AccessPolicy.Requirement.pin.meets(minimumPolicy)
        case .requireFinger: !AccessPolicy.Requirement.biometryAny.meets(minimumPolicy)
        case .offerWithoutVerification: requiresVerification
        case .allowShortPIN: isFixed(.allowShortPIN)
        case .chooseTPM: isFixed(.tcti)
        case .chooseToken, .chooseHardware: isFixed(.token)
        case .chooseServer: isFixed(.endpoint) && isFixed(.clientID)
        case .choosePINSource: isFixed(.pinSource)
        default: false
        }
    }
}
