internal import FoundationEssentials
internal import Glibc
package import Latchkey
package import LatchkeySimulators
package import LatchkeyTesting
internal import Synchronization

/// A PKCS#11 token that verifies a fingerprint instead of a PIN: a `SoftwareToken` behind the
/// module of `Tests/C/FingerprintToken`.
///
/// It has the flag `CKF_PROTECTED_AUTHENTICATION_PATH`. A login waits for a finger; the token
/// rejects a login with a PIN.
package final class FingerprintToken: Sendable {
    /// The sensor's result.
    package enum Verdict: UInt8, Sendable {
        /// The correct finger.
        case match = 0
        /// Another finger.
        case noMatch = 1
        /// No finger.
        case cancelled = 2
        /// No result, or not in time.
        case rejected = 3
        /// Too many wrong fingers.
        case locked = 4
    }

    /// The token as an RFC 7512 URI with label, serial number and module.
    package let uri: String
    /// The path of this token's copy of the module.
    package let modulePath: String
    /// The underlying token, with whose PIN and module a test can bypass the sensor.
    package let token: SoftwareToken

    private let directory: TemporaryDirectory
    private let verdicts: Int32

    /// Creates a token with a sensor that reports the verdicts of `show(_:)`, one for each login.
    /// After twenty seconds without a verdict, the sensor rejects the login.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` if SoftHSM2 is not installed or the module
    ///   cannot be built.
    package convenience init(placement: SoftwareToken.Placement = .thisProcess)
        async throws(KeystoreError)
    {
        try await self.init(verifyingWith: nil, placement: placement)
    }

    /// Creates a token with a shell command as its sensor. The exit status is the ``Verdict``;
    /// other values are failures.
    package convenience init(
        verifyingWith command: String, placement: SoftwareToken.Placement = .thisProcess
    ) async throws(KeystoreError) {
        try await self.init(verifyingWith: .some(command), placement: placement)
    }

    private init(
        verifyingWith command: String?, placement: SoftwareToken.Placement
    ) async throws(KeystoreError) {
        directory = try TemporaryDirectory()
        token = try await SoftwareToken(label: "Fingers", placement: placement)
        modulePath = directory.path(of: "libFingerprintToken.so")
        uri = token.uri(through: modulePath)
        let pipe = directory.path(of: "verdicts")
        let settings = """
            module=\(token.modulePath)
            pin=\(token.userPIN)
            verify=\(command ?? Self.command(reading: pipe))

            """
        do {
            try FileManager.default.copyItem(
                atPath: BuiltProduct.library("FingerprintToken"), toPath: modulePath)
            try Data(settings.utf8).write(to: URL(filePath: "\(modulePath).conf"))
        } catch {
            throw Self.failure("its module cannot be built or copied: \(error)")
        }
        guard mkfifo(pipe, 0o600) == 0 else { throw Self.failure("its pipe cannot be created") }
        // Open for reading too, so that a verdict can be written before the sensor reads.
        verdicts = open(pipe, O_RDWR | O_CLOEXEC | O_NONBLOCK)
        guard verdicts >= 0 else { throw Self.failure("its pipe cannot be opened") }
    }

    deinit {
        close(verdicts)
    }

    /// Sets the verdict for the next login.
    package func show(_ verdict: Verdict) {
        var digit = UInt8(ascii: "0") + verdict.rawValue
        write(verdicts, &digit, 1)
    }

    /// Shows a finger for ``KeystoreContract/Device/PINOwner/atReader(_:)``; the correct finger is
    /// the PIN `correct`.
    package func show(_ step: ScriptedPresence.Step) {
        switch step {
        case .pin("correct"): show(Verdict.match)
        case .pin: show(Verdict.noMatch)
        case .decline, .unavailable: show(Verdict.cancelled)
        // No touch.
        case .hesitate: break
        }
    }

    private static func command(reading pipe: String) -> String {
        "exit $(timeout 20 dd bs=1 count=1 if='\(pipe)' 2>/dev/null || echo \(Verdict.rejected.rawValue))"
    }

    private static func failure(_ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "create a token with a fingerprint sensor", code: .unavailable,
            reason: reason,
            recovery:
                "Run scripts/setup, which installs SoftHSM2 and p11-kit; the module also needs clang."
        )
    }
}
