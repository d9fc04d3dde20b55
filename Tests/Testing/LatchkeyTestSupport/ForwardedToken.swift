import Foundation
package import LatchkeySimulators
import Testing

/// A token of SoftHSM2 that `p11-kit server` forwards over a socket, with the protocol of p11-kit.
/// Programs use it through `p11-kit-client.so` with ``environment``, and not through SoftHSM2.
package struct ForwardedToken: Sendable {
    /// The client's module.
    package static let module = "/usr/lib/x86_64-linux-gnu/pkcs11/p11-kit-client.so"

    /// The token as an RFC 7512 URI.
    package let uri: String
    /// The variable with the server's address.
    package let environment: [String: String]

    /// Runs `body` with a server for a token, then ends the server.
    package static func withServer<R>(
        for token: SoftwareToken, _ body: (ForwardedToken) async throws -> R
    ) async throws -> R {
        let directory = try TemporaryDirectory()
        let socket = directory.path(of: "socket")
        let variables = token.environment.map { "\($0)=\($1)" }
        let server = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            variables + [
                "p11-kit", "server", "--foreground", "--sh", "--name", socket, "--provider",
                token.modulePath,
                "pkcs11:serial=\(token.serial)",
            ])
        // The server prints its address when it listens.
        let started = await server.output { $0.contains("P11_KIT_SERVER_PID=") }
        try #require(
            started.contains("P11_KIT_SERVER_ADDRESS="), "p11-kit server printed ‘\(started)’")
        let forwarded = ForwardedToken(
            uri: token.uri(through: module),
            environment: ["P11_KIT_SERVER_ADDRESS": "unix:path=\(socket)"])
        let result: Result<R, any Error>
        do {
            result = .success(try await body(forwarded))
        } catch {
            result = .failure(error)
        }
        await server.stop()
        return try result.get()
    }
}
