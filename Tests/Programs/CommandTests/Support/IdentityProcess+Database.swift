import LatchkeyTestSupport

extension IdentityProcess {
    /// Runs `body` with a server in demo mode.
    ///
    /// - Parameters:
    ///   - database: The file of its database, which may exist.
    ///   - port: nil for a free one.
    static func withRunning<R>(
        database: String, port: String? = nil, _ body: (IdentityProcess) async throws -> R
    ) async throws -> R {
        try await withRunning(
            ["--demo", "--database", database] + (port.map { ["--port", $0] } ?? []), body)
    }
}
