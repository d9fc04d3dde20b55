import ArgumentParser
import FoundationEssentials
import Latchkey

/// `latchkey key attest`.
struct KeyAttestCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "attest",
        abstract: "Have the hardware certify that it made the key, for a verifier's challenge.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The key's id, the beginning of it, or its label.", valueName: "id"))
    var key: KeyIDArgument

    @Option(help: ArgumentHelp("The verifier's challenge: 8 to 32 bytes in base64url.", valueName: "base64url"))
    var challenge: String

    func validate() throws {
        guard let bytes = Base64URL.decode(challenge), (8...32).contains(bytes.count) else {
            throw ValidationError("A challenge is 8 to 32 bytes in base64url.")
        }
    }

    func perform(in context: CommandContext) async throws -> AttestationReport {
        let records = try await context.records()
        let stored = try await records.usableKey(key).key
        let attestation = try await records.keystore.attest(stored, challenge: Base64URL.decode(challenge) ?? Data())
        return AttestationReport(id: stored.id.rawValue, attestation)
    }
}

/// All bytes in base64url.
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
