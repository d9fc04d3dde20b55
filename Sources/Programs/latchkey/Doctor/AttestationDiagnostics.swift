import FoundationEssentials
import Latchkey
import LatchkeyLogin
import LatchkeyOAuth
import LatchkeyRelyingParty
import LatchkeyServices
import LatchkeyTPM

/// Checks what this machine's TPM can prove to servers, and whether the configured server requires
/// more.
struct AttestationDiagnostics {
    private static let name = "attestation"
    private static let timeoutSeconds = 10

    let context: CommandContext

    /// - Parameter hasStore: Whether there is a store, which has the attestation keys. Creates
    ///   none.
    func check(hasStore: Bool) async -> Check {
        let certificates: [Data]
        let keystore = TPMKeystore(tcti: context.settings.tcti, anchors: MemoryTrustAnchors())
        do throws(KeystoreError) {
            certificates = try await keystore.endorsementCertificates()
        } catch {
            return .warning(
                Self.name, "The TPM's endorsement certificate cannot be read: \(error.reason).",
                advice: error.advice)
        }
        let required = await required()
        guard let first = certificates.first else {
            let finding =
                "The TPM has no endorsement certificate, so it can prove nothing to servers."
            return required == nil
                ? .ok(Self.name, finding)
                : .warning(
                    Self.name,
                    "\(finding) The configured server requires a proof (\(required ?? "")).",
                    advice:
                        "Ask the machine's manufacturer for the certificate, or use a YubiKey (--token)."
                )
        }
        if required == AttestationLevel.touch.rawValue {
            return .warning(
                Self.name, "The configured server requires a YubiKey with a touch for each use.",
                advice: "Use a YubiKey (--token).")
        }
        if required == AttestationLevel.finger.rawValue, let problem = await fingerProblem() {
            return problem
        }
        let maker =
            EndorsementSummary(first)?.manufacturer.map { " of the manufacturer \(printable($0))" }
            ?? ""
        let chain =
            certificates.count == 1
            ? "no certificates of its issuers" : "\(certificates.count - 1) of its issuers"
        return .ok(
            Self.name,
            "The TPM has an endorsement certificate\(maker), and \(chain). \(await expiry(hasStore: hasStore))"
        )
    }

    /// The requirement of the configured server for this client; nil for none, and if the server
    /// cannot be reached.
    private func required() async -> String? {
        guard let endpoint = context.settings.endpoint, let client = context.settings.clientID
        else { return nil }
        let connection = ServerConnection<LoginErrorCode>(
            transport: CurlTransport(timeout: Self.timeoutSeconds))
        guard let metadata = try? await ProviderMetadata.read(at: endpoint, over: connection),
            !metadata.attestationFormats.isEmpty,
            let own = try? await ProviderMetadata.read(at: endpoint, for: client, over: connection)
        else { return nil }
        return own.requiredAttestation == AttestationLevel.none.rawValue
            ? nil : own.requiredAttestation
    }

    private func fingerProblem() async -> Check? {
        guard await context.presence.broker?.fingerState() != .ready else { return nil }
        return .warning(
            Self.name,
            "The configured server requires a key that only a finger opens, and no finger can be checked here.",
            advice: "See the check ‘finger’.")
    }

    private func expiry(hasStore: Bool) async -> String {
        guard hasStore, let endpoint = context.settings.endpoint,
            let keystore = try? await context.tpmKeystore(),
            let issuer = try? await keystore.attestationIssuers().first(where: {
                ServerAddress.isSame($0, endpoint)
            }),
            let expiresAt = try? await keystore.attestationIdentity(for: issuer).expiresAt
        else { return "The configured server has certified no attestation key." }
        return "The server's certificate for it is valid until \(expiresAt.formatted(.iso8601))."
    }
}
