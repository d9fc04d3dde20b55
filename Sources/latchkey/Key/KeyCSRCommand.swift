import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyCertificates
import SwiftASN1
import X509

/// `latchkey key csr`.
struct KeyCSRCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "csr",
        abstract: "Print a certificate signing request for a key, signed with it (PKCS #10, PEM).",
        discussion: "Hand it to a certification authority; what comes back belongs to this key and no other.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: ArgumentHelp("The key's id, the beginning of it, or its label.", valueName: "id"))
    var key: KeyIDArgument

    @Option(
        help: ArgumentHelp(
            "Whom the certificate is for, the most specific part first: ‘CN=Ann,O=Example,C=SE’.", valueName: "name"))
    var subject: String

    func perform(in context: CommandContext) async throws -> CSRReport {
        let subject = try DistinguishedName(rfc4514: subject)
        let records = try await context.records()
        let stored = try await records.usableKey(key).key
        try await records.checkIsOwn(stored, to: "sign a certificate request")
        let request = try await records.keystore.certificateSigningRequest(
            subject: subject, with: stored,
            for: context.prompt("sign a certificate request with the key ‘\(stored.label ?? stored.id.rawValue)’"),
            authorizedBy: context.presence)
        return CSRReport(id: stored.id.rawValue, csr: try request.serializeAsPEM().pemString + "\n")
    }
}

struct CSRReport: Report {
    let id: String
    /// PEM.
    let csr: String

    var text: String { csr }
}
