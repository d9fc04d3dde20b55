import ArgumentParser
import FoundationEssentials
import Glibc
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeyPresence
import LatchkeyServices
import LatchkeyTPM

/// `latchkey broker`.
struct BrokerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "broker", abstract: "Administer the presence broker.",
        subcommands: [Enrol.self, Users.self, Forget.self])
}

extension BrokerCommand {
    /// - Throws: ``KeystoreError`` with code `refused` for a user other than root.
    static func requireRoot(_ deed: String, _ command: String) throws(KeystoreError) {
        guard geteuid() != 0 else { return }
        throw KeystoreError(
            code: .refused, reason: "only the administrator can \(deed)",
            recovery: "Run ‘sudo latchkey broker \(command)’.")
    }

    /// `latchkey broker enrol`.
    struct Enrol: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "enrol",
            abstract:
                "Tell a server this machine's presence broker, so that it accepts fingers of this machine. Needs root.",
            discussion: """
                The TPM certifies the broker's approval key for the server, which binds it to this TPM. The server gets the TPM's \
                endorsement certificate, which identifies this machine permanently. The token is the server operator's: the \
                server's configuration has its SHA-256 as attestation.broker_token_digest.
                """)

        static let createsStore = true

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Option(help: ArgumentHelp("The file with the server operator's token.", valueName: "file"))
        var tokenFile: String

        var operation: String? { "enrol the presence broker" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            do {
                return try await enrol(in: context)
            } catch let error as LoginError where error.oauthError?.error == "invalid_token" {
                throw error.with(
                    reason: "the server does not accept the enrolment token in \(tokenFile)",
                    recovery:
                        "Ask the server's operator for the token whose SHA-256 is attestation.broker_token_digest in the server's configuration."
                )
            }
        }

        private func enrol(in context: CommandContext) async throws -> BriefReport {
            try BrokerCommand.requireRoot("enrol the presence broker", "enrol")
            let authorization = "Bearer \(try token())"
            let keystore = try await context.tpmKeystore()
            guard let endpoint = context.settings.endpoint else {
                throw KeystoreError.invalidInput("no endpoint is configured")
            }
            let connection = ServerConnection<LoginErrorCode>(
                transport: ServerTransport(log: context.log, console: context.console))
            let metadata = try await ProviderMetadata.read(at: endpoint, over: connection)
            let client = OAuthClient(
                metadata, clientID: context.settings.clientID ?? "",
                additionalOrigins: context.trustedOrigins,
                over: connection)
            let prover = try KeyProver(activatingAt: client, keystore)
            try await prover.prepare(
                authorization: authorization, now: Date(), isAgreed: context.discloses)
            let issuer = metadata.issuer
            let name = try await prover.enrolApprovalKey(authorization: authorization) {
                challenge in
                let certified = try await SystemPresenceBroker().certifyKey(
                    by: keystore.wrappedAttestationKey(for: issuer), challenge: challenge)
                guard let json = try await keystore.json(of: certified, for: issuer) else {
                    throw KeystoreError.damaged("the attestation key has no certificate")
                }
                return try JSONDecoder().decode(JSONValue.self, from: json)
            }
            return BriefReport(
                ["name": .string(name), "issuer": .string(issuer)],
                text:
                    "\(printable(issuer)) accepts fingers of this machine. The approval key is \(printable(name))."
            )
        }

        private func token() throws(KeystoreError) -> String {
            let secret: SecretBytes
            do {
                secret = try SecretFile.read(tokenFile, maximumCount: 1_024)
            } catch {
                throw KeystoreError(
                    code: .invalidInput,
                    reason: "the token file \(tokenFile) cannot be used: \(error.reason)",
                    recovery:
                        "Name a file of root with mode 600 (chmod 600), in a directory that only root can write."
                )
            }
            let token = secret.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
                .filter { !$0.isNewline }
            guard (16...512).contains(token.utf8.count),
                token.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
            else {
                throw .invalidInput(
                    "the token file does not contain one token of 16 to 512 visible ASCII characters"
                )
            }
            return token
        }
    }
}
