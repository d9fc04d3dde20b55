import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyTPM

/// `latchkey key export`.
struct KeyExportCommand: ContextCommand {
    enum Format: String, ExpressibleByArgument, CaseIterable {
        case tss2
        case pem
        case jwk
    }

    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Print the public key (pem, jwk), or the key as the TPM has wrapped it (tss2).",
        discussion: "A wrapped key works in this machine's TPM only, with its PIN. No format has a private key.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The key's id, the beginning of it, or its label.", valueName: "id"))
    var key: KeyIDArgument

    @Option(help: "tss2 (TSS2 PRIVATE KEY, for openssl's tpm2 provider), pem or jwk.")
    var format: Format

    func perform(in context: CommandContext) async throws -> KeyExportReport {
        let stored = try await context.records().storedKey(key).key
        switch format {
        case .tss2 where stored.backend != "tpm":
            throw KeystoreError.unsupported(
                "export the key as TSS2 PRIVATE KEY", "it is on a token, which gives nothing of it away",
                recovery: "Export its public key with --format pem or jwk.")
        case .tss2: return .pem(try TPMKeystore.tss2PrivateKey(of: stored), isBare: true)
        case .pem: return .pem(try stored.publicKey.pemRepresentation, isBare: false)
        case .jwk: return .jwk(JWK(stored.publicKey, kid: stored.id))
        }
    }
}

enum KeyExportReport: Report {
    /// - Parameter isBare: Whether it stands alone also where JSON was asked for.
    case pem(String, isBare: Bool)
    case jwk(JWK)

    private enum CodingKeys: String, CodingKey {
        case pem
    }

    var text: String {
        switch self {
        case .pem(let text, _): text
        case .jwk(let jwk): (try? Console.json(jwk)) ?? ""
        }
    }

    var bareOutput: String? {
        if case .pem(let text, true) = self { text } else { nil }
    }

    func encode(to encoder: any Encoder) throws {
        switch self {
        case .pem(let text, _):
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(text, forKey: .pem)
        case .jwk(let jwk): try jwk.encode(to: encoder)
        }
    }
}
