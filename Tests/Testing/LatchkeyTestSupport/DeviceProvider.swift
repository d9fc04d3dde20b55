internal import Foundation
internal import LatchkeySimulators

/// A process of Authlib's device authorization grant (RFC 8628) on a free port. `scripts/setup`
/// installs it with ``OpenIDProvider``.
package enum DeviceProvider {
    /// Runs `body` with a running provider, then stops the provider.
    ///
    /// - Parameters:
    ///   - lifetime: The lifetime of the codes in seconds.
    ///   - body: Gets the issuer URL. The client is `app`.
    package static func withRunning<R>(
        lifetime: Int, _ body: (_ issuer: String) async throws -> R
    ) async throws -> R {
        let script = OpenIDProvider.scripts.appending(path: "device-provider.py")
        let process = try RunningProgram(
            OpenIDProvider.interpreter, [script.path, "1", String(lifetime)])
        let line = await process.output { _ in true }
        return try await withTeardown({ await process.stop() }) {
            try await body(line.trimmingCharacters(in: .whitespacesAndNewlines))
        }
    }
}
