package import Latchkey
package import LatchkeyTesting
internal import Testing

/// The simulated hardware of a test with the traits `.softwareTPM` and `.softwareToken`.
package enum SimulatedDevice: String, Sendable, CaseIterable, CustomTestStringConvertible {
    /// swtpm.
    case tpm
    /// SoftHSM2.
    case token

    package var testDescription: String { rawValue }
}

extension ScriptedPresence {
    /// Creates an authority with a broker of this package.
    package convenience init(
        _ steps: [Step], broker: any ApprovalService,
        preferring preference: PresencePreference = .any
    ) {
        self.init(steps, broker: PresenceBroker(broker), preferring: preference)
    }
}
