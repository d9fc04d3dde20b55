import ArgumentParser
import Latchkey
import LatchkeyLogin
import LatchkeyPKCS11

/// `latchkey disable`.
struct DisableCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "disable",
        abstract: "Disable biometric login: delete the key and have the server forget it.",
        discussion: "Nobody is asked. A token gives up a private key for its owner only: what stays there is named.")

    @OptionGroup var options: GlobalOptions
    @OptionGroup var server: BindServerOption

    @Flag(help: "Disable on this machine only, whatever the server says.")
    var force = false

    func perform(in context: CommandContext) async throws -> RevokingReport<StatusReport> {
        let container = try await context.login(binding: server.bindServer)
        let keys = (try? await container.listBiometricKeys()) ?? []
        try await context.pointingToForce {
            try await container.disableBiometric(force: force)
        }
        for key in keys where key.policy != .none && !PKCS11Keystore.isAdopted(key.key) {
            guard let uri = try? PKCS11Keystore.location(of: key.key) else { continue }
            context.console.warn(
                "The server has forgotten the key, but its private half stays on the token until you delete it with the "
                    + "token's own tool: \(printable(uri))")
        }
        let records = try await context.records()
        let report = StatusReport(try await ContainerStatus(of: records), context.settings)
        return await context.afterRevoking(report, in: records)
    }
}
