internal import FoundationEssentials
public import LatchkeySimulators
public import Testing

/// Gives each test a software token of its own: `SoftwareToken.current`.
///
/// ```swift
/// @Test(.softwareToken) func `a key signs`() async throws {
///     let token = try SoftwareToken.current
///     …
/// }
/// ```
///
/// On a suite it applies to every test in it, each with its own token and its own copy of SoftHSM2's module. A few run
/// at once; further tests wait for their turn.
public struct SoftwareTokenTrait: SimulatorTrait {
    let label: String
    let userPIN: String

    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await Self.turnstile.pass {
            let token = try await SoftwareToken(label: label, userPIN: userPIN)
            try await SoftwareToken.$scoped.withValue(token) { try await function() }
        }
    }

    private static let turnstile = Turnstile(width: 2 * ProcessInfo.processInfo.activeProcessorCount)
}

extension Trait where Self == SoftwareTokenTrait {
    /// A software token of its own for each test, with the PIN `correct`.
    public static var softwareToken: Self { softwareToken(label: "Latchkey", userPIN: "correct") }

    /// A software token of its own for each test.
    public static func softwareToken(label: String, userPIN: String) -> Self {
        SoftwareTokenTrait(label: label, userPIN: userPIN)
    }
}

extension SoftwareToken {
    @TaskLocal fileprivate static var scoped: SoftwareToken?

    /// The token of the running test.
    ///
    /// - Throws: `KeystoreError` with code `wrongState` in a test without the trait ``SoftwareTokenTrait``.
    public static var current: SoftwareToken {
        get throws { try SoftwareTokenTrait.current(scoped, "software token", from: ".softwareToken") }
    }
}
