import Foundation
import Glibc
import Latchkey
import LatchkeyTesting
import Testing

@testable import LatchkeyCredentials

/// Many credentials. `LATCHKEY_SCALE` says how many; run alone with 100000 it holds the figures that the project promises.
/// Without it there are 2000, and nothing is held against a clock.
@Suite(.softwareTPM, .timeLimit(.minutes(10)))
struct ScaleTests {
    @Test func `finding asks the index and not the records, and uses no hardware`() async throws {
        let asked = ProcessInfo.processInfo.environment["LATCHKEY_SCALE"].flatMap(Int.init)
        let count = asked ?? 2000
        let scene = try Scene()
        try await fill(scene, count)
        let before = residentBytes()
        var counting: CountingKeystore?
        let clock = ContinuousClock()
        let start = clock.now
        let store = try await scene.start(
            isOpen: false,
            wrap: { keystore in
                let made = CountingKeystore(keystore)
                counting = made
                return made
            })
        _ = try store.defaultCredential()
        let opened = clock.now - start
        var found: [Credential] = []
        func time(_ body: () throws -> Void) rethrows -> Duration {
            try (0..<5).map { _ in try clock.measure(body) }.min() ?? .zero
        }
        let byTag = try time { found = try store.find { $0.tags["number"] == "\(count / 2)" } }
        #expect(found.map(\.id) == ["t\(count / 2)"])
        let byClaim = try time { found = try store.find { $0.subject == "user\(count - 1)" } }
        #expect(found.map(\.id) == ["t\(count - 1)"])
        let byBoth = try time { found = try store.find { $0.subject == "user7" && $0.tags["kind"] == "even" } }
        #expect(found.isEmpty)
        let grown = residentBytes() - before
        let scanned = try time { found = try store.find { $0.tags["number"] == "7" as String? } }
        #expect(found.map(\.id) == ["t7"])
        #expect(counting?.calls == [])
        print(
            """
            scale: \(count) credentials: open \(opened), find by tag \(byTag), by claim \(byClaim), \
            by both \(byBoth), scan \(scanned), memory \(grown / 1024) KiB
            """)
        if asked != nil {
            #expect(byTag <= .milliseconds(5) && byClaim <= .milliseconds(5) && byBoth <= .milliseconds(5))
            #expect(grown <= 20 << 20)
        }
        // A look at every record would take longer than that for so many, on whatever machine.
        #expect(byTag * 20 < scanned && byClaim * 20 < scanned)
    }

    /// Writes the first thousand as the store would. The others are copies under other names, which can be found like
    /// any, and not opened.
    private func fill(_ scene: Scene, _ count: Int) async throws {
        let real = 1000
        let store = try await scene.start()
        let changes = try (0..<real).flatMap { number in
            try CredentialRows.put(
                Self.token(number), tags: ["number": "\(number)", "kind": number % 2 == 0 ? "even" : "odd"],
                security: .none, claims: .all)
        }
        try await store.records.apply(changes, for: PromptContext(reason: "fill the store"))
        try await scene.sql(
            """
            WITH RECURSIVE copy (base) AS (SELECT \(real) UNION ALL SELECT base + \(real) FROM copy LIMIT \(count / real - 1))
            INSERT INTO record (container, id, kind, class, policy, attributes, payload, generation, createdAt, updatedAt, mac)
            SELECT container, 'credential.data.t' || (base + number), kind, class, policy,
                json_set(attributes, '$."tag:number"', '' || (base + number), '$."claim:sub"', '"user' || (base + number) || '"'),
                payload, generation, createdAt, updatedAt, mac
            FROM copy, (SELECT *, CAST(substr(id, 18) AS INTEGER) AS number FROM record WHERE kind = 'credential');
            INSERT INTO record (container, id, kind, class, policy, attributes, payload, generation, createdAt, updatedAt, mac)
            SELECT data.container, 'credential.token.' || substr(data.id, 17), token.kind, token.class, token.policy,
                token.attributes, token.payload, token.generation, token.createdAt, token.updatedAt, token.mac
            FROM record AS data, record AS token
            WHERE data.kind = 'credential' AND CAST(substr(data.id, 18) AS INTEGER) >= \(real)
                AND token.container = data.container AND token.id = 'credential.token.t0';
            INSERT OR IGNORE INTO recordAttribute (container, name, value, id)
            SELECT record.container, attribute.key, attribute.value, record.id
            FROM record, json_each(record.attributes) AS attribute;
            """)
    }

    private static func token(_ number: Int) throws -> Token {
        let claims = Base64URL.encode(Data(#"{"iss":"https://id.test","sub":"user\#(number)"}"#.utf8))
        return try Token(
            [
                "access_token": .string("access-\(number)-\(String(repeating: "x", count: 600))"),
                "token_type": "Bearer", "refresh_token": "refresh", "id_token": .string("e30.\(claims).AA"),
            ], context: Provider.context, id: "t\(number)")
    }

    /// proc(5), `/proc/self/statm`: the second number, in pages.
    private func residentBytes() -> Int {
        let text = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
        return (Int(text.split(separator: " ").dropFirst().first ?? "") ?? 0) * Int(getpagesize())
    }
}
