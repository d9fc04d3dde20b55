internal import FoundationEssentials
internal import Glibc
internal import Latchkey
public import LatchkeySimulators
public import Testing
public import VirtualSmartCard

/// A trait that gives each test its own simulator. A suite's trait applies to every test of the
/// suite.
public protocol SimulatorTrait: TestTrait, SuiteTrait, TestScoping {}

extension SimulatorTrait {
    public var isRecursive: Bool { true }

    /// Provides a scope for each test case, but not for a suite.
    public func scopeProvider(for test: Test, testCase: Test.Case?) -> Self? {
        testCase == nil ? nil : self
    }

    /// The simulator of the running test.
    ///
    /// - Parameters:
    ///   - scoped: The task's simulator.
    ///   - name: The simulator's name for the error.
    ///   - trait: The trait that provides it, as written in code.
    static func current<Simulator>(_ scoped: Simulator?, _ name: String, from trait: String) throws
        -> Simulator
    {
        guard let scoped else {
            throw KeystoreError(
                operation: "find the test's \(name)", code: .wrongState,
                // Swift Testing prints the reason only.
                reason: "neither the test nor its suite has the trait \(trait)",
                recovery: "Add the trait \(trait) to the test or its suite.")
        }
        return scoped
    }
}

/// Gives each test its own software TPM: `SoftwareTPM.current`.
///
/// ```swift
/// @Test(.softwareTPM) func `a key signs`() async throws {
///     let tpm = try SoftwareTPM.current
///     …
/// }
/// ```
///
/// A suite's trait applies to every test of the suite. The TPM ends with the test. The trait limits
/// the number of concurrent TPMs; further tests wait.
public struct SoftwareTPMTrait: SimulatorTrait {
    let provisioning: SoftwareTPM.Provisioning

    public func provideScope(
        for test: Test, testCase: Test.Case?,
        performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await Self.limit.run {
            try await SoftwareTPM.withRunning(provisioning) { tpm in
                try await SoftwareTPM.$scoped.withValue(tpm) { try await function() }
            }
        }
    }

    private static let limit = ConcurrencyLimit(2 * ProcessInfo.processInfo.activeProcessorCount)
}

extension Trait where Self == SoftwareTPMTrait {
    /// A software TPM for each test.
    public static var softwareTPM: Self { softwareTPM(.blank) }

    /// A software TPM for each test, with this provisioning.
    public static func softwareTPM(_ provisioning: SoftwareTPM.Provisioning) -> Self {
        SoftwareTPMTrait(provisioning: provisioning)
    }
}

extension SoftwareTPM {
    @TaskLocal fileprivate static var scoped: SoftwareTPM?

    /// The TPM of the running test.
    ///
    /// - Throws: `KeystoreError` with code `wrongState` if the test does not have the trait
    ///   ``SoftwareTPMTrait``.
    public static var current: SoftwareTPM {
        get throws { try SoftwareTPMTrait.current(scoped, "software TPM", from: ".softwareTPM") }
    }
}

/// Gives each test its own software token: `SoftwareToken.current`.
///
/// ```swift
/// @Test(.softwareToken) func `a key signs`() async throws {
///     let token = try SoftwareToken.current
///     …
/// }
/// ```
///
/// A suite's trait applies to every test of the suite. Each test has its own copy of SoftHSM2's
/// module. The trait limits the number of concurrent tokens; further tests wait.
public struct SoftwareTokenTrait: SimulatorTrait {
    let label: String
    let userPIN: String

    public func provideScope(
        for test: Test, testCase: Test.Case?,
        performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await Self.limit.run {
            let token = try await SoftwareToken(label: label, userPIN: userPIN)
            try await SoftwareToken.$scoped.withValue(token) { try await function() }
        }
    }

    private static let limit = ConcurrencyLimit(2 * ProcessInfo.processInfo.activeProcessorCount)
}

extension Trait where Self == SoftwareTokenTrait {
    /// A software token for each test, with the PIN `correct`.
    public static var softwareToken: Self { softwareToken(label: "Latchkey", userPIN: "correct") }

    /// A software token for each test.
    public static func softwareToken(label: String, userPIN: String) -> Self {
        SoftwareTokenTrait(label: label, userPIN: userPIN)
    }
}

extension SoftwareToken {
    @TaskLocal fileprivate static var scoped: SoftwareToken?

    /// The token of the running test.
    ///
    /// - Throws: `KeystoreError` with code `wrongState` if the test does not have the trait
    ///   ``SoftwareTokenTrait``.
    public static var current: SoftwareToken {
        get throws {
            try SoftwareTokenTrait.current(scoped, "software token", from: ".softwareToken")
        }
    }
}

/// Gives each test its own fingerprint reader: `VirtualFingerprintReader.current`.
///
/// ```swift
/// @Test(.virtualFinger) func `a finger opens`() async throws {
///     let reader = try VirtualFingerprintReader.current
///     …
/// }
/// ```
///
/// A suite's trait applies to every test of the suite. The reader ends with the test. The trait
/// limits the number of concurrent readers; further tests wait. If a program is missing, the test
/// fails with its name.
public struct VirtualFingerTrait: SimulatorTrait {
    public func provideScope(
        for test: Test, testCase: Test.Case?,
        performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await Self.limit.run {
            try await VirtualFingerprintReader.withRunning { reader in
                try await VirtualFingerprintReader.$scoped.withValue(reader) {
                    try await function()
                }
            }
        }
    }

    // As many as software TPMs: a test that has its TPM does not wait for a reader.
    private static let limit = ConcurrencyLimit(2 * ProcessInfo.processInfo.activeProcessorCount)
}

extension Trait where Self == VirtualFingerTrait {
    /// A fingerprint reader for each test.
    public static var virtualFinger: Self { VirtualFingerTrait() }
}

extension VirtualFingerprintReader {
    @TaskLocal fileprivate static var scoped: VirtualFingerprintReader?

    /// The reader of the running test.
    ///
    /// - Throws: `KeystoreError` with code `wrongState` if the test does not have the trait
    ///   ``VirtualFingerTrait``.
    public static var current: VirtualFingerprintReader {
        get throws {
            try VirtualFingerTrait.current(scoped, "fingerprint reader", from: ".virtualFinger")
        }
    }
}

/// Gives each test its own virtual YubiKey: ``VirtualYubiKey/current``.
///
/// ```swift
/// @Test(.virtualYubiKey) func `yubico-piv-tool sees it`() async throws {
///     let yubiKey = try VirtualYubiKey.current
///     …
/// }
/// ```
///
/// A suite's trait applies to every test of the suite that has no such trait itself. Only one pcscd
/// can run at a time, so these tests run one after the other. They are skipped without root, pcscd,
/// its driver or yubico-piv-tool.
public struct VirtualYubiKeyTrait: SimulatorTrait, Hashable {
    let profile: CardProfile
    let touchTimeout: Duration?

    public func prepare(for test: Test) async throws {
        for condition in [Self.needsDaemon, Self.needsTool, Self.needsDriver, Self.needsRoot] {
            try await condition.prepare(for: test)
        }
    }

    public func provideScope(
        for test: Test, testCase: Test.Case?,
        performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        // A test's trait comes after its suite's in the list, and runs within the suite's scope.
        let mostSpecific = test.traits.compactMap { $0 as? Self }.last
        guard VirtualYubiKey.scoped == nil, self == mostSpecific else {
            return try await function()
        }
        try await Self.limit.run {
            try await VirtualYubiKey.withInserted(profile, touchTimeout: touchTimeout) { yubiKey in
                try await VirtualYubiKey.$scoped.withValue(yubiKey) { try await function() }
            }
        }
    }

    private static let limit = ConcurrencyLimit(1)
    private static let driver = "/usr/lib/pcsc/drivers/serial/libifdvpcd.so"

    private static let needsDaemon: ConditionTrait = .requires(program: "pcscd")
    private static let needsTool: ConditionTrait = .requires(program: "yubico-piv-tool")
    private static let needsDriver: ConditionTrait = .enabled(
        if: FileManager.default.fileExists(atPath: driver),
        "needs the driver \(driver), which is not installed")
    private static let needsRoot: ConditionTrait = .enabled(
        if: geteuid() == 0, "needs root to start pcscd")
}

extension Trait where Self == VirtualYubiKeyTrait {
    /// A virtual YubiKey 5.4.3 for each test.
    public static var virtualYubiKey: Self { virtualYubiKey() }

    /// A virtual YubiKey for each test.
    ///
    /// - Parameter touchTimeout: The time limit for a touch; by default that of the card, 15
    ///   seconds for a YubiKey.
    public static func virtualYubiKey(
        _ profile: CardProfile = CardProfile(), touchTimeout: Duration? = nil
    ) -> Self {
        VirtualYubiKeyTrait(profile: profile, touchTimeout: touchTimeout)
    }
}

extension VirtualYubiKey {
    @TaskLocal fileprivate static var scoped: VirtualYubiKey?

    /// The YubiKey of the running test.
    ///
    /// - Throws: `KeystoreError` with code `wrongState` if the test does not have the trait
    ///   ``VirtualYubiKeyTrait``.
    public static var current: VirtualYubiKey {
        get throws {
            try VirtualYubiKeyTrait.current(scoped, "virtual YubiKey", from: ".virtualYubiKey")
        }
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips the test, with the reason, if `program` is not in `PATH`.
    public static func requires(program: String) -> Self {
        .enabled(if: isInstalled(program), "needs the program \(program), which is not in PATH")
    }
}

private func isInstalled(_ program: String) -> Bool {
    let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
    return path.split(separator: ":").contains {
        FileManager.default.isExecutableFile(atPath: "\($0)/\(program)")
    }
}
