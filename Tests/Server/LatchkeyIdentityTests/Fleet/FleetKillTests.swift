import LatchkeyTestSupport
import Testing

/// Instances of a fleet, killed while clients log in, rotate refresh tokens and set up devices.
@Suite(.enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
struct FleetKillTests {
    /// 500 kills, or a sample.
    @Test(.timeLimit(.minutes(60)))
    func `after many kills of instances, nothing was accepted twice and no device is lost`()
        async throws
    {
        let count = Repetitions.count(500, sample: 50)
        try await Self.kill(count)
        print("Kill points: instances of a fleet: killed at \(count) of \(count)")
    }

    /// Kills random instances, each when the clients have progressed since the last one was started
    /// again.
    static func kill(_ count: Int) async throws {
        let database = PostgreSQLServer(["log_statement": "none"])
        try await withDatabase(database) { address in
            try await Fleet.run(on: address) { fleet, load in
                var random = SplitMix(seed: load.seed)
                for _ in 0..<count {
                    try await load.progress(by: Int.random(in: 1...4, using: &random))
                    try await fleet.kill(Int.random(in: 0..<Fleet.size, using: &random))
                }
            }
        }
    }
}
