import Latchkey
import LatchkeyLogin

/// How a container stands.
struct StatusReport: Report {
    let container: String
    let lastUserID: Nullable<String>
    let biometricEnabled: Bool
    let sessionState: SessionState
    /// The enabled key, whoever owns it.
    let kid: Nullable<String>
    /// Whether the hardware can take the enabled key back from every copy of the store; nothing without a key.
    let isRevocable: Bool?
    private let warning: String

    private enum CodingKeys: String, CodingKey {
        case container, lastUserID, biometricEnabled, sessionState, kid, isRevocable
    }

    init(_ status: ContainerStatus) {
        container = status.container
        lastUserID = Nullable(status.lastUserID)
        biometricEnabled = status.isBiometricEnabled
        sessionState = status.sessionState
        kid = Nullable(status.key?.id.rawValue)
        isRevocable = status.key?.isRevocable
        warning = status.key?.key.copyWarning.map { "\n\($0)" } ?? ""
    }

    var text: String {
        """
        Container:        \(printable(container))
        Last user:        \(lastUserID.value.map(printable) ?? "nobody yet")
        Biometric login:  \(biometricEnabled ? "enabled" : "not enabled")
        Session:          \(sessionState == .authenticated ? "logged in" : "none")\(warning)
        """
    }
}
