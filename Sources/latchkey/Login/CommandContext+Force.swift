import LatchkeyLogin

extension CommandContext {
    /// Does what the server has to know of, and tells of `--force` where the server can't be reached.
    func pointingToForce(_ body: () async throws -> Void) async throws {
        do {
            try await body()
        } catch let error as LoginError where error.code == .network {
            console.warn("With --force it is done on this machine, and the server keeps what it has.")
            throw error
        }
    }
}
