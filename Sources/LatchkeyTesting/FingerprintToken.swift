internal import FoundationEssentials
internal import Glibc
package import Latchkey
package import LatchkeySimulators
internal import Synchronization

/// A PKCS#11 token that takes a fingerprint instead of a PIN: a `SoftwareToken` behind the module that
/// `Tests/FingerprintToken` builds.
///
/// Its flags say `CKF_PROTECTED_AUTHENTICATION_PATH`, a login takes no PIN and waits for a finger, and a PIN that a
/// program hands over is refused unread.
package final class FingerprintToken: Sendable {
    /// What the sensor says of a finger.
    package enum Verdict: UInt8, Sendable {
        /// The finger is the right one.
        case match = 0
        /// It is another one.
        case noMatch = 1
        /// Nobody put a finger there.
        case cancelled = 2
        /// The sensor could say nothing, or not in time.
        case rejected = 3
        /// There were too many wrong fingers.
        case locked = 4
    }

    /// The token as an RFC 7512 URI: its label, its serial number and the module.
    package let uri: String
    /// The module to load, of this token alone.
    package let modulePath: String
    /// The token behind it, whose PIN and module a test may use to look behind the sensor.
    package let token: SoftwareToken

    private let directory: TemporaryDirectory
    private let verdicts: Int32

    /// Makes a token whose sensor says what `show(_:)` tells it, one verdict for each login. A login waits
    /// for that up to twenty seconds, then the sensor rejects it.
    ///
    /// - Throws: `KeystoreError` with code `unavailable` when SoftHSM2 is not installed or the module not built.
    package convenience init(placement: SoftwareToken.Placement = .thisProcess) async throws(KeystoreError) {
        try await self.init(verifyingWith: nil, placement: placement)
    }

    /// Makes a token whose sensor is a shell command. Its exit status is the ``Verdict``, anything else a failure.
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
            try FileManager.default.copyItem(atPath: Self.builtModule(), toPath: modulePath)
            try Data(settings.utf8).write(to: URL(filePath: "\(modulePath).conf"))
        } catch {
            throw Self.failure("its module can't be copied: \(error)")
        }
        guard mkfifo(pipe, 0o600) == 0 else { throw Self.failure("its pipe can't be made") }
        // Open for both, so that a verdict can be left before anybody reads.
        verdicts = open(pipe, O_RDWR | O_CLOEXEC | O_NONBLOCK)
        guard verdicts >= 0 else { throw Self.failure("its pipe can't be opened") }
    }

    deinit {
        close(verdicts)
    }

    /// Tells the sensor what to say at the next login.
    package func show(_ verdict: Verdict) {
        var digit = UInt8(ascii: "0") + verdict.rawValue
        write(verdicts, &digit, 1)
    }

    /// Shows the sensor a finger, as ``KeystoreContract/Device/PINOwner/atReader(_:)`` wants it: the right one is the
    /// PIN `correct`.
    package func show(_ step: ScriptedPresence.Step) {
        switch step {
        case .pin("correct"): show(Verdict.match)
        case .pin: show(Verdict.noMatch)
        case .decline, .unavailable: show(Verdict.cancelled)
        // Nobody touches the sensor.
        case .hesitate: break
        }
    }

    private static func command(reading pipe: String) -> String {
        "exit $(timeout 20 dd bs=1 count=1 if='\(pipe)' 2>/dev/null || echo \(Verdict.rejected.rawValue))"
    }

    /// The module as the build left it, beside the running tests.
    private static func builtModule() throws -> String {
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return URL(filePath: tests).deletingLastPathComponent().appending(path: "libFingerprintToken.so").path()
    }

    private static func failure(_ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "make a token with a fingerprint sensor", code: .unavailable, reason: reason,
            recovery: "Build everything, tests included: swift build --build-tests.")
    }
}
