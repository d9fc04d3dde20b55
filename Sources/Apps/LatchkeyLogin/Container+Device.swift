internal import Latchkey
package import LatchkeyOAuth

extension Container {
    /// Logs a user in with a browser on any device (RFC 8628). The server must offer that.
    ///
    /// The same users can log in as with ``authorize(_:reason:)``. The response has no nonce, because the
    /// request has none.
    ///
    /// - Parameters:
    ///   - clock: The clock of the requests, for tests.
    ///   - show: Shows the user the page and the code.
    /// - Throws: ``LoginError``: `unsupported` if the server does not offer that, `cancelled`,
    ///   `timedOut`, `userMismatch`, `invalidToken`.
    @discardableResult
    package func authorize(
        clock: some Clock<Duration> = ContinuousClock(),
        onAnyDevice show: @Sendable (DeviceAuthorization) async -> Void
    ) async throws -> AuthorizeResult {
        do {
            let server = try await serverOfLogin(for: prompt("log in to")) {
                try $0.client.checkDeviceEndpoints()
            }
            let authorization = try await server.client.authorizeDevice(
                scope: LoginEndpoints.scope)
            await show(authorization)
            let (tokens, date) = try await server.exchange(authorization, clock: clock)
            return try await adopt(
                BrowserLogin(tokens: tokens, nonce: nil, serverDate: date), server)
        } catch {
            await forgetKey(after: error)
            throw error.during("log in")
        }
    }
}
