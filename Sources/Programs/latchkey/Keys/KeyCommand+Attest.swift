import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyTPM

extension KeyCommand {
    /// `latchkey key attest`.
    struct Attest: ContextCommand {
        /// The value of `--form`.
        enum Form: String, ExpressibleByArgument, CaseIterable {
            case creation
            case certify
            case webauthn
            case acme
        }

        static let configuration = CommandConfiguration(
            commandName: "attest",
            abstract: "Print the hardware's attestation of the key, for a verifier's challenge.",
            discussion: """
                creation: the hardware created the key. certify: the key is in the hardware. webauthn and acme: the same in the form \
                of these standards; they need a certificate from a server: run ‘latchkey attestation enrol’, and name the server \
                with --issuer. All forms but creation ask for the PIN of a key that has its own in a TPM. A token prints its \
                certificates in all forms.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: KeyIDArgument.help, completion: NameCompletion.keys)
        var key: KeyIDArgument

        @Option(
            help: ArgumentHelp(
                "The verifier's challenge in base64url: 8 to 64 bytes; for the form creation at most 32.",
                valueName: "base64url"))
        var challenge: String

        @Option(
            help: ArgumentHelp(
                "The server whose attestation key signs. (default: the one for local use)",
                valueName: "url"))
        var issuer: String?

        @Option(help: "The form of the statement.") var form = Form.creation

        @Flag(help: "Print the TPM's certificates too, which identify this machine permanently.")
        var endorsement =
            false

        func validate() throws {
            let maximum = form == .creation ? 32 : 64
            guard let bytes = Base64URL.decode(challenge), (8...maximum).contains(bytes.count)
            else {
                throw ValidationError("A challenge is 8 to \(maximum) bytes in base64url.")
            }
            guard form != .webauthn || issuer.flatMap({ URL(string: $0)?.host() }) != nil else {
                throw ValidationError("The form webauthn needs --issuer, a URL.")
            }
        }

        var operation: String? { "attest a key" }

        func perform(in context: CommandContext) async throws -> AttestationReport {
            let records = try await context.records()
            let stored = try await records.usableKey(key).key
            // Before the prompt: a token has none.
            let certificates =
                endorsement ? try await context.tpmKeystore().endorsementCertificates() : nil
            let request = AttestationRequest(
                challenge: Base64URL.decode(challenge) ?? Data(), issuer: issuer ?? "",
                form: requestForm, prompt: context.prompt("attest the key ‘\(stored.name)’"))
            let attestation = try await records.keystore.attest(
                stored, for: request, authorizedBy: context.presence)
            return AttestationReport(
                id: stored.id.rawValue, form: form, attestation, endorsement: certificates)
        }

        private var requestForm: AttestationRequest.Form {
            switch form {
            case .creation: .creation
            case .certify: .certify
            case .webauthn:
                .webAuthn(
                    rpID: issuer.flatMap { URL(string: $0)?.host() } ?? "", origin: issuer ?? "")
            case .acme: .acme
            }
        }
    }
}

/// An attestation. Its bytes are in base64url.
struct AttestationReport: Report {
    let id: String
    let format: String
    /// `creation` or `certify` for a TPM, `certificate` for a token.
    let type: String
    let statement: String
    let signature: String
    let publicArea: String
    let attestationKey: String
    /// The certificate of the attestation key and its issuers'.
    let certificates: [String]
    /// The declared branches of the key's policy.
    let presence: PresenceStatement?
    /// The CBOR attestation object; absent without a certificate.
    let object: String?
    /// The client data of the form webauthn.
    let clientData: String?
    /// The TPM's certificates; absent without `--endorsement`.
    let endorsementCertificates: [String]?
    private let endorsementText: String?

    private enum CodingKeys: CodingKey {
        case id, format, type, statement, signature, publicArea, attestationKey, certificates,
            presence, object, clientData, endorsementCertificates
    }

    init(
        id: String, form: KeyCommand.Attest.Form, _ attestation: KeyAttestation,
        endorsement: [Data]?
    ) {
        self.id = id
        format = attestation.format
        type =
            attestation.format == KeyAttestation.piv
            ? "certificate" : form == .creation ? "creation" : "certify"
        statement = Base64URL.encode(attestation.statement)
        signature = Base64URL.encode(attestation.signature)
        publicArea = Base64URL.encode(attestation.publicArea)
        attestationKey = Base64URL.encode(attestation.attestationKey)
        certificates = attestation.certificates.map { Base64URL.encode($0) }
        presence = attestation.presence
        object = attestation.object.map { Base64URL.encode($0) }
        clientData = attestation.clientData.map { Base64URL.encode($0) }
        endorsementCertificates = endorsement?.map { Base64URL.encode($0) }
        endorsementText =
            endorsement.map {
                $0.isEmpty
                    ? "Endorsement:      the TPM has no endorsement certificate"
                    : "Endorsement:      \($0.count)\n" + AttestationStatusReport.pem($0)
            }
    }

    var layout: Layout {
        let fields = Layout.fields(
            18,
            [
                ("Format", Layout.Cell(format)), ("Type", Layout.Cell(type)),
                ("Statement", Layout.Cell(statement)), ("Signature", Layout.Cell(signature)),
                ("Public area", Layout.Cell(publicArea)),
                ("Attestation key", Layout.Cell(attestationKey)),
                ("Certificates", "\(certificates.count)"),
            ])
        return endorsementText.map { fields.then(.verbatim($0)) } ?? fields
    }
}
