import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyLogin
import LatchkeyRelyingParty
import LatchkeyTPM

/// `latchkey attestation`.
struct AttestationCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attestation",
        abstract: "Prove to servers that keys are in hardware.",
        discussion: """
            A server that requires a proof gets it at ‘latchkey enable’ and ‘latchkey locker start’. These commands show what this \
            machine can prove, and to whom it did.
            """,
        subcommands: [Show.self, Enrol.self, Forget.self, Verify.self])
}

extension CommandContext {
    /// The keystore of the container's records.
    ///
    /// - Throws: ``KeystoreError`` with code `unsupported` for a token, which needs no attestation
    ///   key.
    func tpmKeystore() async throws(KeystoreError) -> TPMKeystore {
        guard let keystore = try await records().keystore as? TPMKeystore else {
            throw .unsupported(
                "a token has no attestation key of its own",
                recovery: "Use ‘latchkey key attest’, or run the command without --token.")
        }
        return keystore
    }
}

extension AttestationCommand {
    /// `latchkey attestation show`.
    struct Show: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "show",
            abstract:
                "Show the TPM's certificate and the attestation key of each server. Does not prompt.",
            discussion: "The certificate identifies this machine permanently.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        var operation: String? { "show the attestation keys" }

        func perform(in context: CommandContext) async throws -> AttestationStatusReport {
            let keystore = try await context.tpmKeystore()
            let certificates = try await keystore.endorsementCertificates()
            var issuers: [AttestationStatusReport.Issuer] = []
            for issuer in try await keystore.attestationIssuers() {
                let expiresAt = try await keystore.attestationIdentity(for: issuer).expiresAt
                issuers.append(.init(issuer: issuer, expiresAt: Nullable(expiresAt)))
            }
            return AttestationStatusReport(certificates: certificates, issuers: issuers)
        }
    }

    /// `latchkey attestation enrol`.
    struct Enrol: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "enrol",
            abstract: "Activate this TPM at the server now. Needs a login.",
            discussion: """
                The server gets the TPM's endorsement certificate, which identifies this machine permanently. From then on, new \
                keys are proven to the server even if it does not require that.
                """)

        static let createsStore = true

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        func perform(in context: CommandContext) async throws -> AttestationStatusReport.Issuer {
            _ = try await context.tpmKeystore()
            let identity = try await context.login()
                .activateAttestation()
            return .init(
                issuer: try context.identityServer().endpoint,
                expiresAt: Nullable(identity.expiresAt))
        }
    }

    /// `latchkey attestation forget`.
    struct Forget: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "forget",
            abstract: "Delete the attestation key for a server. The next proof uses a new one.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Option(help: ArgumentHelp("The server. (default: --endpoint)", valueName: "url"))
        var issuer: String?

        var operation: String? { "forget the attestation key" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let keystore = try await context.tpmKeystore()
            let server = if let issuer { issuer } else { try context.identityServer().endpoint }
            let issuers = try await keystore.attestationIssuers().filter {
                ServerAddress.isSame($0, server)
            }
            guard !issuers.isEmpty else {
                throw KeystoreError(
                    code: .notFound, reason: "there is no attestation key for \(server)",
                    recovery: "List them with ‘latchkey attestation show’.")
            }
            for issuer in issuers { try await keystore.forgetAttestation(for: issuer) }
            return BriefReport(
                ["issuers": .array(issuers.map { .string($0) })],
                text: "The attestation key for \(issuers.joined(separator: ", ")) is deleted.")
        }
    }
}

/// What this machine can prove.
struct AttestationStatusReport: Report {
    /// The attestation key for one server.
    struct Issuer: Report {
        let issuer: String
        /// The end of its certificate; null before the activation.
        let expiresAt: Nullable<Date>

        var layout: Layout { .entry([], cell) }

        fileprivate var cell: Layout.Cell {
            let name = issuer.isEmpty ? "local use" : printable(issuer)
            return expiresAt.value.map { Layout.Cell($0) { "\(name): certified until \($0)" } }
                ?? "\(name): not certified"
        }
    }

    /// `id:` and 8 hexadecimal digits; null without a certificate.
    let manufacturer: Nullable<String>
    let model: Nullable<String>
    let version: Nullable<String>
    /// DER in base64: of an endorsement key, of the issuers, and of the other endorsement keys.
    let endorsementCertificates: [Data]
    let issuers: [Issuer]

    init(certificates: [Data], issuers: [Issuer]) {
        let summary = certificates.first.flatMap { EndorsementSummary($0) }
        manufacturer = Nullable(summary?.manufacturer)
        model = Nullable(summary?.model)
        version = Nullable(summary?.version)
        endorsementCertificates = certificates
        self.issuers = issuers
    }

    var layout: Layout {
        guard !endorsementCertificates.isEmpty else {
            return Layout(
                "The TPM has no endorsement certificate, so it can prove nothing to a server.")
        }
        func shown(_ text: Nullable<String>) -> Layout.Cell {
            Layout.Cell(text.value.map(printable) ?? "unknown")
        }
        let keys: Layout.Cell =
            issuers.isEmpty
            ? "no server has certified a key of this store"
            : .lines(issuers.map(\.cell))
        return Layout.fields(
            15,
            [
                ("Manufacturer", shown(manufacturer)), ("Model", shown(model)),
                ("Version", shown(version)), ("Keys", keys),
            ]
        ).then(.verbatim(Self.pem(endorsementCertificates)))
    }

    /// Certificates in PEM.
    static func pem(_ certificates: [Data]) -> String {
        certificates.map { certificate in
            let lines = certificate.base64EncodedString(options: [
                .lineLength64Characters, .endLineWithLineFeed,
            ])
            return "-----BEGIN CERTIFICATE-----\n\(lines)\n-----END CERTIFICATE-----"
        }.joined(separator: "\n")
    }
}
