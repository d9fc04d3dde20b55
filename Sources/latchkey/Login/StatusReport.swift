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
    /// The address of the server to which the session and the key belong.
    let server: String?
    /// The OAuth client to which they belong.
    let clientID: String?
    /// Whether both are the configured ones.
    let isConfiguredServer: Bool?
    private let warning: String

    private enum CodingKeys: String, CodingKey {
        case container, lastUserID, biometricEnabled, sessionState, kid, isRevocable, server, clientID
        case isConfiguredServer
    }

    /// - Parameter settings: They name the configured server.
    init(_ status: ContainerStatus, _ settings: Settings) {
        server = status.server?.address
        clientID = status.server?.clientID
        let configured = LoginServer(address: settings.endpoint ?? "", clientID: settings.clientID ?? "")
        isConfiguredServer = status.server.flatMap { server in configured.map { $0 == server } }
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
        Session:          \(sessionState == .authenticated ? "logged in" : "none")\(serverLine)\(warning)
        """
    }

    private var serverLine: String {
        guard let server, let clientID else { return "" }
        let other =
            isConfiguredServer == false
            ? "\nThe configured server is a different one. Commands do not use this session or key there." : ""
        return "\nServer:           \(printable(server)), client \(printable(clientID))\(other)"
    }
}
