import ArgumentParser
import FoundationEssentials
import Latchkey
internal import LatchkeyJOSE
import LatchkeyTPM

extension KeyCommand {
    /// `latchkey key export`.
    struct Export: ContextCommand {
        enum Format: String, ExpressibleByArgument, CaseIterable {
            case tss2
            case pem
            case jwk
        }

        static let configuration = CommandConfiguration(
            commandName: "export",
            abstract: "Print the public key (pem, jwk), or the TPM-wrapped key (tss2).",
            discussion: """
                A wrapped key works only in this machine's TPM, with its PIN. No format contains an unencrypted \
                private key.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: KeyIDArgument.help, completion: NameCompletion.keys)
        var key: KeyIDArgument

        @Option(help: "tss2 (TSS2 PRIVATE KEY, for the tpm2 provider of OpenSSL), pem or jwk.")
        var format: Format

        var operation: String? { "export a key" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let stored = try await context.records().storedKey(key).key
            switch format {
            case .tss2:
                guard stored.backend == "tpm" else {
                    throw KeystoreError.unsupported(
                        "the key is on a token, which does not export private keys",
                        recovery: "Export its public key with --format pem or jwk.")
                }
                let pem = try TPMKeystore.tss2PrivateKey(of: stored)
                // The PEM replaces the JSON object too.
                return BriefReport(["pem": pem], data: pem, bareOutput: pem)
            case .pem:
                let pem = stored.publicKey.pemRepresentation
                return BriefReport(["pem": pem], data: pem)
            case .jwk:
                let jwk = JWK(stored.publicKey, kid: stored.id)
                return BriefReport(jwk, data: try Console.json(jwk))
            }
        }
    }
}
