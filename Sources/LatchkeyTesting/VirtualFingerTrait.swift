internal import FoundationEssentials
public import LatchkeySimulators
public import Testing

/// Gives each test a fingerprint reader of its own: `VirtualFingerprintReader.current`.
///
/// ```swift
/// @Test(.virtualFinger) func `a finger opens`() async throws {
///     let reader = try VirtualFingerprintReader.current
///     …
/// }
/// ```
///
/// On a suite it applies to every test in it, each with its own reader. The reader ends when the test is over. A few
/// run at once; further tests wait for their turn. Where a program is missing the test fails and names it: pair the
/// trait with ``Testing/Trait/requires(program:)`` for `fprintd-verify` and `dbus-daemon` to have it skipped.
public struct VirtualFingerTrait: SimulatorTrait {
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await Self.turnstile.pass {
            try await VirtualFingerprintReader.withRunning { reader in
                try await VirtualFingerprintReader.$scoped.withValue(reader) { try await function() }
            }
        }
    }

    private static let turnstile = Turnstile(width: ProcessInfo.processInfo.activeProcessorCount)
}

extension Trait where Self == VirtualFingerTrait {
    /// A fingerprint reader of its own for each test.
    public static var virtualFinger: Self { VirtualFingerTrait() }
}

extension VirtualFingerprintReader {
    @TaskLocal fileprivate static var scoped: VirtualFingerprintReader?

    /// The reader of the running test.
    ///
    /// - Throws: `KeystoreError` with code `wrongState` in a test without the trait ``VirtualFingerTrait``.
    public static var current: VirtualFingerprintReader {
        get throws { try VirtualFingerTrait.current(scoped, "fingerprint reader", from: ".virtualFinger") }
    }
}
