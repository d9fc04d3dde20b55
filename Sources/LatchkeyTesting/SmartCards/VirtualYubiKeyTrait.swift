internal import FoundationEssentials
internal import Glibc
public import Testing
public import VirtualSmartCard

/// Gives each test a virtual YubiKey of its own: ``VirtualYubiKey/current``.
///
/// ```swift
/// @Test(.virtualYubiKey) func `yubico-piv-tool sees it`() async throws {
///     let yubiKey = try VirtualYubiKey.current
///     …
/// }
/// ```
///
/// On a suite it applies to every test in it, each with its own card, unless the test has a trait of its own. There is one pcscd at a time, so these tests run
/// one after the other, whatever suites they are in. They are skipped where pcscd, its driver or root's rights are
/// missing.
public struct VirtualYubiKeyTrait: SimulatorTrait, Hashable {
    let profile: CardProfile
    let touchTimeout: Duration

    public func prepare(for test: Test) async throws {
        for condition in [Self.needsDaemon, Self.needsTool, Self.needsDriver, Self.needsRoot] {
            try await condition.prepare(for: test)
        }
    }

    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        // A test's own trait comes after its suite's, within whose scope it runs.
        let mostSpecific = test.traits.compactMap { $0 as? Self }.last
        guard VirtualYubiKey.scoped == nil, self == mostSpecific else { return try await function() }
        try await Self.turnstile.pass {
            try await VirtualYubiKey.withInserted(profile, touchTimeout: touchTimeout) { yubiKey in
                try await VirtualYubiKey.$scoped.withValue(yubiKey) { try await function() }
            }
        }
    }

    private static let turnstile = Turnstile(width: 1)
    private static let driver = "/usr/lib/pcsc/drivers/serial/libifdvpcd.so"

    private static let needsDaemon: ConditionTrait = .requires(program: "pcscd")
    private static let needsTool: ConditionTrait = .requires(program: "yubico-piv-tool")
    private static let needsDriver: ConditionTrait = .enabled(
        if: FileManager.default.fileExists(atPath: driver), "needs the driver \(driver), which is not there")
    private static let needsRoot: ConditionTrait = .enabled(
        if: geteuid() == 0, "needs root, to start a pcscd of its own")
}

extension Trait where Self == VirtualYubiKeyTrait {
    /// A virtual YubiKey 5.4.3 of its own for each test.
    public static var virtualYubiKey: Self { virtualYubiKey() }

    /// A virtual YubiKey of its own for each test.
    ///
    /// - Parameter touchTimeout: How long its keys wait to be touched. 15 seconds are as long as a YubiKey waits.
    public static func virtualYubiKey(
        _ profile: CardProfile = CardProfile(), touchTimeout: Duration = .seconds(15)
    ) -> Self {
        VirtualYubiKeyTrait(profile: profile, touchTimeout: touchTimeout)
    }
}

extension VirtualYubiKey {
    @TaskLocal fileprivate static var scoped: VirtualYubiKey?

    /// The YubiKey of the running test.
    ///
    /// - Throws: `KeystoreError` with code `wrongState` in a test without the trait ``VirtualYubiKeyTrait``.
    public static var current: VirtualYubiKey {
        get throws { try VirtualYubiKeyTrait.current(scoped, "virtual YubiKey", from: ".virtualYubiKey") }
    }
}
