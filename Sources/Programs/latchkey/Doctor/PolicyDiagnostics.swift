import Latchkey
import LatchkeyPKCS11
import LatchkeyServices
import LatchkeyTPM

/// Checks that this machine can have keys that the minimum policy permits. Does not prompt.
struct PolicyDiagnostics {
    static let name = "policy"

    let context: CommandContext

    func check() async -> Check {
        let minimum = context.settings.minimumPolicy
        guard minimum != .none else { return .ok(Self.name, "There is no minimum policy.") }
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
        let obstacle = await fingerObstacle(capabilities)
        // A new key of the other policies needs a finger that can be checked now.
        let usable = permitted.filter { obstacle == nil || $0 == .pin }
        guard !usable.isEmpty else {
            return .problem(
                Self.name, "\(rule), and \(obstacle ?? "").",
                advice: "See the check ‘finger’, or ask the administrator of this machine.",
                code: .unavailable)
        }
        let names = AccessPolicy.Requirement.allCases.filter(usable.contains).map(\.rawValue)
        let limit = usable.count < permitted.count ? obstacle.map { "; \($0)" } : nil
        return .ok(
            Self.name,
            "\(rule). This machine can enforce \(names.joined(separator: ", "))\(limit ?? "").")
    }

    /// Why no finger can be checked now; nil if one can.
    private func fingerObstacle(_ capabilities: KeystoreCapabilities) async -> String? {
        await capabilities.fingerState(through: context.presence).obstacle
    }

    private var keystore: any Keystore {
        let settings = context.settings
        return settings.token.map { PKCS11Keystore(uri: $0, options: settings.tokenOptions) }
            ?? TPMKeystore(tcti: settings.tcti, anchors: MemoryTrustAnchors())
    }
}

extension FingerState {
    /// Why no finger can be checked now; nil if one can.
    var obstacle: String? {
        switch self {
        case .ready: nil
        case .notEnrolled: "you have no finger enrolled"
        case .lockedOut: "no finger is accepted after too many that did not match"
        case .notAvailable(let why): "no fingerprint can be checked: \(why)"
        }
    }
}
