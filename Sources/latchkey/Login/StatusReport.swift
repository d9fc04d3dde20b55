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

    init(_ status: ContainerStatus) {
        container = status.container
        lastUserID = Nullable(status.lastUserID)
        biometricEnabled = status.isBiometricEnabled
        sessionState = status.sessionState
        kid = Nullable(status.key?.id.rawValue)
    }

    var text: String {
        """
        Container:        \(printable(container))
        Last user:        \(lastUserID.value.map(printable) ?? "nobody yet")
        Biometric login:  \(biometricEnabled ? "enabled" : "not enabled")
        Session:          \(sessionState == .authenticated ? "logged in" : "none")
        """
    }
}
