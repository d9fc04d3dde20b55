public import Testing

/// Which simulated hardware a test runs over. The test needs the traits `.softwareTPM` and `.softwareToken`.
public enum SimulatedDevice: String, Sendable, CaseIterable, CustomTestStringConvertible {
    /// swtpm.
    case tpm
    /// SoftHSM2.
    case token

    public var testDescription: String { rawValue }
}
