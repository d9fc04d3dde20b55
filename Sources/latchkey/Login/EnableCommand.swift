import ArgumentParser
import Latchkey
import LatchkeyLogin

/// `latchkey enable`.
struct EnableCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "enable",
        abstract: "Enable biometric login: make a key in the hardware and register it with the server.")

    @OptionGroup var options: GlobalOptions
    @OptionGroup var server: BindServerOption

    @Option(
        help: """
            What the hardware asks for before it uses the key. (default: user-presence where your finger can be checked, \
            else pin)
            """)
    var policy: LoginPolicyArgument?

    func perform(in context: CommandContext) async throws -> EnableReport {
        EnableReport(try await context.login(binding: server.bindServer).enableBiometric(policy: policy?.policy))
    }
}

struct EnableReport: Report {
    let kid: String
    let policy: String
    let assurance: String
    let enforcedPresence: String
    /// Whether the hardware can revoke the key for every copy of the store.
    let isRevocable: Bool
    /// Why not, where the hardware refused; left out otherwise.
    let notRevocableReason: String?
    private let warning: String

    private enum CodingKeys: String, CodingKey {
        case kid, policy, assurance, enforcedPresence, isRevocable, notRevocableReason
    }

    init(_ key: BiometricKey) {
        notRevocableReason = key.notRevocableReason
        let reason = key.notRevocableReason.map { " The reason: \(printable($0))." } ?? ""
        warning = key.key.copyWarning.map { "\n\($0)\(reason)" } ?? ""
        kid = key.id.rawValue
        policy = key.policy.description
        assurance = key.assurance.description
        enforcedPresence = key.assurance.presence.rawValue
        isRevocable = key.isRevocable
    }

    var text: String { "Biometric login is enabled with the key \(kid): \(assurance), policy \(policy).\(warning)" }
}
