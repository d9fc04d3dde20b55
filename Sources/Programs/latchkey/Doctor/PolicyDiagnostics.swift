import Latchkey
import LatchkeyPKCS11
import LatchkeyServices
import LatchkeyTPM

/// Checks that this machine can have keys that the minimum policy permits. Does not prompt.
struct PolicyDiagnostics {
    private static let name = "policy"

    let context: CommandContext

    /// - Returns: nil if there is no minimum.
    func check() async -> Check? {
        let minimum = context.settings.minimumPolicy
        guard minimum != .none else { return nil }
        let place = context.settings.values.place(of: .minimumPolicy) ?? ""
        let rule =
            "New keys and secrets need a policy that meets ‘\(minimum.rawValue)’, the minimum-policy of \(place)"
        let capabilities: KeystoreCapabilities
        do throws(KeystoreError) {
            capabilities = try await keystore.capabilities()
        } catch {
            // The check of the hardware is the problem.
            return .warning(
                Self.name, "\(rule); the hardware does not answer.", advice: error.advice)
        }
        let permitted = capabilities.requirements.filter { $0.meets(minimum) }
        guard !permitted.isEmpty else {
            return .problem(
                Self.name, "\(rule). \(printable(capabilities.device)) can enforce none.",
                advice: "Use other hardware, or ask the administrator of this machine.",
                code: .unsupported)
        }
        // A PIN needs no reader.
        if !permitted.contains(.pin), let problem = await fingerProblem(capabilities, rule) {
            return problem
        }
        let names = AccessPolicy.Requirement.allCases.filter(permitted.contains).map(\.rawValue)
        return .ok(Self.name, "\(rule). This machine can enforce \(names.joined(separator: ", ")).")
    }

    private func fingerProblem(_ capabilities: KeystoreCapabilities, _ rule: String) async -> Check?
    {
        let finding =
            switch await capabilities.fingerState(through: context.presence) {
            case .ready: nil as String?
            case .notEnrolled: "you have no finger enrolled"
            case .lockedOut: "no finger is accepted after too many that did not match"
            case .notAvailable(let why): "no fingerprint can be checked: \(why)"
            }
        return finding.map {
            .problem(
                Self.name, "\(rule), and \($0).",
                advice: "See the check ‘finger’, or ask the administrator of this machine.",
                code: .unavailable)
        }
    }

    private var keystore: any Keystore {
        let settings = context.settings
        return settings.token.map { PKCS11Keystore(uri: $0, options: settings.tokenOptions) }
            ?? TPMKeystore(tcti: settings.tcti, anchors: MemoryTrustAnchors())
    }
}
