import Foundation
import GRDB
import Latchkey
import LatchkeyCredentials
import LatchkeyTestSupport
import LatchkeyTesting
import RawDatabase
import Testing

/// 100,000 credentials. Measurements are printed; expectations do not depend on the machine's
/// speed.
@Suite(.softwareTPM)
struct ScaleTests {
    private static let count = 100_000

    @Test
    func `finding among 100,000 credentials uses no hardware and reads only the matching rows`()
        async throws
    {
        let bench = try Bench()
        let store = try await bench.start()
        try store.store(bench.provider.signIn(id: "seed"), tags: ["n": "seed", "group": "seed"])
        try fill(bench)

        let clock = ContinuousClock()
        var offline: CredentialStore?
        let opening = try await clock.measure {
            offline = try await bench.start(keystore: AbsentKeystore(), isOpen: false)
        }
        let found = try #require(offline)
        #expect(try found.find { $0.tags["n"] == "77777" }.map(\.id) == ["c77777"])

        let byTag = try best(clock, finds: 1) { try found.find { $0.tags["n"] == "4711" } }
        let byClaim = try best(clock, finds: 1) { try found.find { $0.subject == "user-815" } }
        let byBoth = try best(clock, finds: 1) {
            try found.find { $0.subject == "user-815" && $0.tags["group"] == "15" }
        }
        let byID = try best(clock, finds: 1) { try found.find { $0.id == "c99999" } }
        let nothing = try best(clock, finds: 0) {
            try found.find { $0.email == "nobody@example.com" }
        }
        print(
            """
            100,000 credentials: opening \(opening), by tag \(byTag), by claim \(byClaim), \
            by both \(byBoth), by id \(byID), nothing \(nothing)
            """)
        for time in [byTag, byClaim, byBoth, byID, nothing] { #expect(time <= Self.goal) }
        #expect(try plan(bench).allSatisfy { !$0.contains("SCAN record") })
    }

    /// Writes the same rows 100,000 times, without encryption, because the tokens are never opened.
    private func fill(_ bench: Bench) throws {
        let database = try DatabaseQueue.raw(at: bench.databasePath)
        try database.write { database in
            for kind in ["metadata", "token"] {
                try database.execute(
                    sql: """
                        WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n + 1 < ?)
                        INSERT INTO record (container, id, kind, class, policy, attributes, hardwareKey, payload,
                            generation, createdAt, updatedAt, mac)
                        SELECT container, 'credential.\(kind).c' || n, kind, class, policy,
                            replace(replace(replace(attributes, '"tag.n":"seed"', '"tag.n":"' || n || '"'),
                                '"tag.group":"seed"', '"tag.group":"' || (n % 100) || '"'), 'jane', 'user-' || n),
                            hardwareKey, payload, generation, createdAt, updatedAt, mac
                        FROM record, number WHERE id = 'credential.\(kind).seed'
                        """,
                    arguments: [Self.count])
            }
            try database.execute(
                sql: """
                    INSERT INTO recordAttribute (container, name, value, id)
                    SELECT container, attribute.key, attribute.value, record.id
                    FROM record, json_each(record.attributes) AS attribute WHERE record.id LIKE 'credential.metadata.c%'
                    """)
        }
    }

    /// A search that reads all rows takes longer, however often it is tried.
    private static let goal = Duration.milliseconds(5)

    /// The time of the fastest search. A busy machine needs more tries to reach the goal.
    private func best(
        _ clock: ContinuousClock, finds count: Int, times: Int = 1000,
        _ body: () throws -> [Credential]
    ) throws -> Duration {
        var best = Duration.seconds(1000)
        for _ in 0..<times {
            var found: [Credential] = []
            best = min(best, try clock.measure { found = try body() })
            #expect(found.count == count)
            if best <= Self.goal { break }
        }
        return best
    }

    /// How SQLite looks for a tag.
    private func plan(_ bench: Bench) throws -> [String] {
        try DatabaseQueue.raw(at: bench.databasePath).read { database in
            try Row.fetchAll(
                database,
                sql: """
                    EXPLAIN QUERY PLAN SELECT record.* FROM
                    (SELECT id FROM recordAttribute WHERE container = 'default' AND name = 'tag.n' AND value = '1') AS hit
                    CROSS JOIN record WHERE record.container = 'default' AND record.id = hit.id
                    """
            ).map { $0["detail"] ?? "" }
        }
    }
}
