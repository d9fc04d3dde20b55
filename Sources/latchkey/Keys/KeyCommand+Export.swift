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

        @OptionGroup var arguments: KeyArguments

        @Option(help: "tss2 (TSS2 PRIVATE KEY, for the tpm2 provider of OpenSSL), pem or jwk.") var format: Format

        var operation: String? { "export a key" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let stored = try await context.records().storedKey(arguments.key).key
            switch format {
            case .tss2:
                guard stored.backend == "tpm" else {
                    throw KeystoreError.unsupported(
                        "the key is on a token, which does not export private keys",
                        recovery: "Export its public key with --format pem or jwk.")
                }
                let pem = try TPMKeystore.tss2PrivateKey(of: stored)
                // The PEM replaces the JSON object too.
                return BriefReport(["pem": pem], text: pem, bareOutput: pem)
            case .pem:
                let pem = stored.publicKey.pemRepresentation
                return BriefReport(["pem": pem], text: pem)
            case .jwk:
                let jwk = JWK(stored.publicKey, kid: stored.id)
                return BriefReport(jwk, text: try Console.json(jwk))
            }
        }
    }

    /// `latchkey key attest`.
    struct Attest: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "attest",
            abstract: "Print the hardware's attestation that it created the key, for a verifier's challenge.")

        @OptionGroup var arguments: KeyArguments

        @Option(help: ArgumentHelp("The verifier's challenge: 8 to 32 bytes in base64url.", valueName: "base64url"))
        var challenge: String

        func validate() throws {
            guard let bytes = Base64URL.decode(challenge), (8...32).contains(bytes.count) else {
                throw ValidationError("A challenge is 8 to 32 bytes in base64url.")
            }
        }

        var operation: String? { "attest a key" }

        func perform(in context: CommandContext) async throws -> AttestationReport {
            let records = try await context.records()
            let stored = try await records.usableKey(arguments.key).key
            let attestation = try await records.keystore.attest(
                stored, challenge: Base64URL.decode(challenge) ?? Data())
            return AttestationReport(id: stored.id.rawValue, attestation)
        }
    }
}

/// An attestation. Its bytes are in base64url.
struct AttestationReport: Report {
    let id: String
    let format: String
    let statement: String
    let signature: String
    let publicArea: String
    let attestationKey: String
    let certificates: [String]

    init(id: String, _ attestation: KeyAttestation) {
        self.id = id
        format = attestation.format
        statement = Base64URL.encode(attestation.statement)
        signature = Base64URL.encode(attestation.signature)
        publicArea = Base64URL.encode(attestation.publicArea)
        attestationKey = Base64URL.encode(attestation.attestationKey)
        certificates = attestation.certificates.map { Base64URL.encode($0) }
    }

    var text: String {
        """
        Format:           \(format)
        Statement:        \(statement)
        Signature:        \(signature)
        Public area:      \(publicArea)
        Attestation key:  \(attestationKey)
        Certificates:     \(certificates.count)
        """
    }
}
