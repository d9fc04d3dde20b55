import ArgumentParser
import Latchkey
import LatchkeyLogin
import LatchkeyPKCS11
import LatchkeyServices

/// `latchkey enable`.
struct EnableCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "enable",
        abstract: "Enable biometric login: create a key and register it with the server.")

    @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

    @Option(
        help: """
            The user verification that the hardware requires for each use of the key. (default: user-presence if \
            your fingerprint can be checked here, otherwise pin)
            """)
    var policy: VerifyingPolicy?

    var operation: String? { "enable biometric login" }

    func perform(in context: CommandContext) async throws -> EnableReport {
        EnableReport(
            try await context.login().enableBiometric(
                policy: context.settings.policy(policy?.policy)))
    }
}

struct EnableReport: SentenceReport {
    let kid: String
    let policy: String
    let assurance: String
    let enforcedPresence: String
    /// Whether the hardware can revoke the key for every copy of the store.
    let isRevocable: Bool
    /// The reason why the hardware refused to make the key revocable; absent otherwise.
    let notRevocableReason: String?
    /// True if the key was enabled before, and the command did nothing; absent otherwise.
    let wasAlreadyEnabled: Bool?
    private let warning: String

    private enum CodingKeys: String, CodingKey {
        case kid, policy, assurance, enforcedPresence, isRevocable, notRevocableReason,
            wasAlreadyEnabled
    }

    init(_ key: BiometricKey) {
        notRevocableReason = key.notRevocableReason
        let reason = key.notRevocableReason.map { " The reason: \(printable($0))." } ?? ""
        warning = key.key.copyWarning.map { "\n\($0)\(reason)" } ?? ""
        kid = key.id.rawValue
        policy = key.key.policy.description
        assurance = key.key.assurance.description
        enforcedPresence = key.key.assurance.presence.rawValue
        isRevocable = key.key.isRevocable
        wasAlreadyEnabled = key.wasAlreadyEnabled ? true : nil
    }

    var text: String {
        "Biometric login is \(wasAlreadyEnabled == true ? "already " : "")enabled with the key \(kid): \(assurance), "
            + "policy \(policy).\(warning)"
    }
}

/// `latchkey disable`.
struct DisableCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "disable",
        abstract: "Disable biometric login: delete the key and remove it from the server.",
        discussion: """
            Does not prompt. A token deletes a private key only with its PIN; the command names the keys that stay \
            on the token.
            """)

    @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

    @Flag(help: "Disable on this machine even if the server fails or refuses.") var force = false

    var operation: String? { "disable biometric login" }

    func perform(in context: CommandContext) async throws -> RevokingReport<StatusReport> {
        let container = try await context.login()
        let keys = (try? await container.listBiometricKeys())?.map(\.key) ?? []
        do {
            try await mentioningForce { try await container.disableBiometric(force: force) }
        } catch let error as LoginError where error.code == .notEnabled {
            throw error.with(recovery: "There is nothing to disable.")
        } catch let error as LoginError
            where error.recoveryAction.actions.contains(.forceDisable)
        {
            warn(of: keys, context.console)
            throw error
        }
        warn(of: keys, context.console)
        let records = try await context.records()
        let report = StatusReport(try await ContainerStatus(of: records), context.settings)
        return await context.afterRevoking(report, in: records)
    }

    private func warn(of keys: [HardwareKey], _ console: Console) {
        for key in keys where key.policy != .none && !PKCS11Keystore.isAdopted(key) {
            guard let uri = try? PKCS11Keystore.location(of: key) else { continue }
            console.warn(
                "Biometric login is disabled, but the private key stays on the token until you delete it with the token's "
                    + "own tool: \(printable(uri))")
        }
    }
}

extension HardwareKey {
    /// A warning that copies of the store can always use a login's key, one sentence; nil if they
    /// cannot. A token's key is on the token, which deletes it or reports that it cannot.
    var copyWarning: String? {
        switch assurance.root {
        case .tpm, .swtpm:
            isRevocable
                ? nil
                : "This hardware cannot revoke the key: a copy of the store can sign with it here after ‘disable’."
        case .token, .softhsm: nil
        }
    }
}
