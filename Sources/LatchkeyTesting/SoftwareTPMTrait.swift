internal import FoundationEssentials
public import LatchkeySimulators
public import Testing

/// Gives each test a software TPM of its own: `SoftwareTPM.current`.
///
/// ```swift
/// @Test(.softwareTPM) func `a key signs`() async throws {
///     let tpm = try SoftwareTPM.current
///     …
/// }
/// ```
///
/// On a suite it applies to every test in it, each with its own TPM. The TPM is killed when the test is over.
/// A few run at once; further tests wait for their turn.
public struct SoftwareTPMTrait: SimulatorTrait {
    let provisioning: SoftwareTPM.Provisioning

    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await Self.turnstile.pass {
            try await SoftwareTPM.withRunning(provisioning) { tpm in
                try await SoftwareTPM.$scoped.withValue(tpm) { try await function() }
            }
        }
    }

    private static let turnstile = Turnstile(width: 2 * ProcessInfo.processInfo.activeProcessorCount)
}

extension Trait where Self == SoftwareTPMTrait {
    /// A software TPM of its own for each test.
    public static var softwareTPM: Self { softwareTPM(.blank) }

    /// A software TPM of its own for each test, made ready as `provisioning` says.
    public static func softwareTPM(_ provisioning: SoftwareTPM.Provisioning) -> Self {
        SoftwareTPMTrait(provisioning: provisioning)
    }
}

extension SoftwareTPM {
    @TaskLocal fileprivate static var scoped: SoftwareTPM?

    /// The TPM of the running test.
    ///
    /// - Throws: `KeystoreError` with code `wrongState` in a test without the trait ``SoftwareTPMTrait``.
    public static var current: SoftwareTPM {
        get throws { try SoftwareTPMTrait.current(scoped, "software TPM", from: ".softwareTPM") }
    }
}
