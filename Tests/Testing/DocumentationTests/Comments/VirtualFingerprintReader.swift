import LatchkeySimulators

private func useReader(_ verify: ([String: String]) async throws -> Void) async throws {
    try await VirtualFingerprintReader.withRunning { reader in
        try await reader.enroll(.rightIndex, as: "alice's", for: "alice")
        try await verify(reader.environment)
        try await reader.present(.finger("alice's"))
    }
}
