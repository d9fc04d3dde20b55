import ArgumentParser
import Latchkey
import LatchkeyLogin
import LatchkeySSH
import LatchkeyServices

/// `latchkey status`.
struct StatusCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract:
            "Show the container's state on this hardware. Does not prompt or use the network.",
        discussion:
            "Compares the machine with the store's by reading one public key from the hardware."
    )

    @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

    var operation: String? { "show the container's state" }

    func perform(in context: CommandContext) async throws -> StatusReport {
        let records = try await context.records()
        let isForeign = try await context.isForeign(records)
        let keys = isForeign ? [] : try await records.keys()
        return StatusReport(
            try await ContainerStatus(of: records), context.settings,
            sshKeys: keys.count { $0.kind == SSHKeyRecord.kind })
    }
}

/// The state of a container.
struct StatusReport: Report {
    let container: String
    let lastUserID: Nullable<String>
    /// The user's name at the server; absent if it is not known.
    let lastUserName: String?
    let biometricEnabled: Bool
    let sessionState: SessionState
    /// The enabled key, of any user.
    let kid: Nullable<String>
    /// Whether the hardware can revoke the enabled key for every copy of the store; absent without
    /// a key.
    let isRevocable: Bool?
    /// The address of the server of the session and the key.
    let server: String?
    /// The OAuth client of the session and the key.
    let clientID: String?
    /// Whether both match the configuration.
    let isConfiguredServer: Bool?
    /// The number of keys that latchkey-agent offers; absent in the reports of other commands.
    let sshKeys: Int?
    private let warning: String?

    private enum CodingKeys: String, CodingKey {
        case container, lastUserID, lastUserName, biometricEnabled, sessionState, kid, isRevocable,
            server,
            clientID
        case isConfiguredServer, sshKeys
    }

    /// - Parameter settings: The settings with the configured server.
    init(_ status: ContainerStatus, _ settings: ProgramSettings, sshKeys: Int? = nil) {
        self.sshKeys = sshKeys
        server = status.server?.address
        clientID = status.server?.clientID
        let configured = LoginServer(
            address: settings.endpoint ?? "", clientID: settings.clientID ?? "")
        isConfiguredServer = status.server.flatMap { server in configured.map { $0 == server } }
        container = settings.container
        lastUserID = Nullable(status.lastUserID)
        lastUserName = status.lastUserName
        biometricEnabled = status.isBiometricEnabled
        sessionState = status.sessionState
        kid = Nullable(status.key?.id.rawValue)
        isRevocable = status.key?.key.isRevocable
        warning = status.key?.key.copyWarning
    }

    var layout: Layout {
        let isActive = sessionState == .authenticated
        let user = lastUserID.value.map(printable) ?? "none"
        let address = server.flatMap { server in
            clientID.map { Layout.Cell("\(printable(server)), client \(printable($0))") }
        }
        let notes: [String] = [
            address != nil && isConfiguredServer == false
                ? "The configured server is a different one. Commands do not use this session or key there."
                : nil, warning,
        ].compactMap(\.self)
        return Layout.fields(
            18,
            [
                ("Container", Layout.Cell(printable(container))),
                (
                    "Last user",
                    Layout.Cell(
                        script: user, lastUserName.map(printable) ?? user)
                ),
                (
                    "Biometric login",
                    biometricEnabled ? Layout.Cell("enabled", .good) : "not enabled"
                ),
                ("Session", isActive ? Layout.Cell("logged in", .good) : "none"),
                ("Server", address),
                ("SSH keys", sshKeys.flatMap { $0 > 0 ? Layout.Cell("\($0)") : nil }),
            ]
        ).then(Layout(notes.joined(separator: "\n")))
    }
}
