import Foundation
import GRDB
import Latchkey
import LatchkeyCredentials
import LatchkeyJOSE
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Finding credentials, with the hardware out of reach.
@Suite(.softwareTPM)
struct FindTests {
    /// Four tokens as an app has them, and a store that could open none.
    private func bench() async throws -> (Bench, CredentialStore) {
        let bench = try Bench()
        let store = try await bench.start()
        for (id, subject, service) in [
            ("1", "jane", "a"), ("2", "jane", "b"), ("3", "bob", "a"), ("4", "eve", ""),
        ] {
            let token = try bench.provider.signIn(
                subject: subject, id: id,
                claims: ["level": .number(Double(id) ?? 0), "admin": .bool(id == "3")])
            try store.store(token, tags: service.isEmpty ? [:] : ["service": service, "n": id])
        }
        return (bench, try await bench.start(keystore: AbsentKeystore(), isOpen: false))
    }

    @Test func `by tag and by claim`() async throws {
        let (bench, store) = try await bench()
        defer { withExtendedLifetime(bench) {} }
        func ids(_ query: (CredentialAttributes) -> CredentialQuery) throws -> [String] {
            try store.find(where: query).map(\.id)
        }
        #expect(try ids { $0.tags["service"] == "a" } == ["1", "3"])
        #expect(try ids { $0.tags["service"] != "a" } == ["2", "4"])
        #expect(try ids { $0.tags["service"] == nil } == ["4"])
        #expect(try ids { $0.subject == "jane" } == ["1", "2"])
        #expect(try ids { $0.email == "bob@example.com" || $0["sub"] == "eve" } == ["3", "4"])
        #expect(try ids { $0.subject == "jane" && $0.tags["service"] == "b" } == ["2"])
        #expect(try ids { !($0.subject == "jane") } == ["3", "4"])
        #expect(try ids { $0["level"] == 2 } == ["2"])
        #expect(try ids { $0["level"] == "2" }.isEmpty)
        #expect(try ids { $0["admin"] == true } == ["3"])
        #expect(try ids { $0.id == "4" } == ["4"])
        #expect(try ids { _ in .all } == ["1", "2", "3", "4"])
    }

    @Test func `by every claim of the ID token`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let groups = (0..<100).map {
            JSONValue.string("group-\($0)-\(String(repeating: "x", count: 20))")
        }
        let claims: [String: JSONValue] = [
            "acr": "urn:okta:loa:2fa:any", "amr": ["pwd", "otp"], "sid": "s1",
            "auth_time": 1_800_000_000, "azp": "app",
            "ver": 1, "at_hash": "h", "groups": .array(groups),
            "note": .string(String(repeating: "n", count: 20_000)),
        ]
        try store.store(bench.provider.signIn(id: "all", claims: claims))
        try store.store(bench.provider.signIn(id: "other"))
        func ids(_ query: (CredentialAttributes) -> CredentialQuery) throws -> [String] {
            try store.find(where: query).map(\.id)
        }
        for (name, value) in claims {
            #expect(try ids { $0[name] == value } == ["all"], "\(name)")
            #expect(
                try store.find { (metadata: Token.Metadata) -> Bool in metadata[name] == value }
                    .map(\.id) == ["all"])
        }
        #expect(try ids { $0["exp"] != nil && $0["iat"] != nil } == ["all", "other"])
        #expect(try ids { $0["amr"].contains("otp") } == ["all"])
        #expect(try ids { $0["amr"].contains("sms") }.isEmpty)
        #expect(try ids { $0["groups"].contains(groups[99]) } == ["all"])
        #expect(try ids { $0["sub"].contains("jane") } == ["all", "other"])
        #expect(try ids { !$0["groups"].contains(groups[0]) } == ["other"])
    }

    @Test func `claims above the limit are reported`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let events = store.events
        let claims: [String: JSONValue] = [
            "long": .string(String(repeating: "n", count: 64 * 1024)),
            "many": .array((0...1000).map { .number(Double($0)) }), "short": "n",
        ]
        let credential = try store.store(bench.provider.signIn(claims: claims))
        #expect(try Set(credential.metadata.claims.keys).isDisjoint(with: ["long", "many"]))
        #expect(try store.find { $0["short"] == "n" } == [credential])
        #expect(try await credential.token.claims["many"]?.array?.count == 1001)
        for await event in events {
            guard case .claimsNotCopied(let reported, let names) = event else { continue }
            #expect(reported === credential)
            #expect(names == ["long", "many"])
            break
        }
    }

    @Test func `by a predicate`() async throws {
        let (bench, store) = try await bench()
        defer { withExtendedLifetime(bench) {} }
        let found = try store.find { metadata in
            let service = metadata.tags["service"]?.uppercased()
            return service == "A" && metadata["level"]?.number ?? 0 > 2
        }
        #expect(found.map(\.id) == ["3"])
        #expect(try store.find { $0.email?.hasPrefix("jane") ?? false }.count == 2)
        struct Stop: Error {}
        #expect(throws: Stop.self) { try store.find { _ in throw Stop() } }
    }

    @Test func `the predicate may use and change the store`() async throws {
        let (bench, _) = try await bench()
        let store = try await bench.start()
        let found = try store.find { (metadata: Token.Metadata) -> Bool in
            let same = try store.find { $0.tags["service"] == metadata.tags["service"] }.count
            if metadata.id == "2" { try store.credential(id: "3")?.remove() }
            return try store.allIDs.contains(metadata.id) && same == 2
        }
        #expect(found.map(\.id) == ["1"])
        #expect(try store.allIDs == ["1", "2", "4"])
    }

    @Test func `the predicate sees each credential once`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        for number in 0..<600 {
            try store.store(bench.provider.signIn(id: "\(number)", refreshes: false))
        }
        var seen: [String] = []
        let found = try store.find { (metadata: Token.Metadata) -> Bool in
            seen.append(metadata.id)
            return Int(metadata.id).map { $0 >= 500 } ?? false
        }
        #expect(seen == (0..<600).map(String.init))
        #expect(found.map(\.id) == (500..<600).map(String.init))
    }

    @Test(arguments: ["x", #"{"tag.service":"a"}"#])
    func `a row that can't be read is left out and reported`(attributes: String) async throws {
        let (bench, store) = try await bench()
        try tamper(
            bench, "UPDATE record SET attributes = ? WHERE id = 'credential.metadata.1'",
            [attributes])
        let events = store.events
        #expect(try store.find { $0.tags["service"] == "a" }.map(\.id) == ["3"])
        #expect(
            try store.find { (metadata: Token.Metadata) -> Bool in metadata.tags["service"] == "a" }
                .map(\.id) == ["3"])
        #expect(await names(of: events, count: 2) == ["unreadable", "unreadable"])
        #expect(throws: keystore(.damaged)) { try #require(try store.credential(id: "1")).metadata }
    }

    @Test func `an edited index is not believed`() async throws {
        let (bench, store) = try await bench()
        try tamper(
            bench,
            "UPDATE recordAttribute SET value = 'a' WHERE id = 'credential.metadata.2' AND name = 'tag.service'"
        )
        #expect(try store.find { $0.tags["service"] == "a" }.map(\.id) == ["1", "3"])
    }

    @Test func `edited metadata is refused when the token is read`() async throws {
        let (bench, _) = try await bench()
        try tamper(
            bench,
            "UPDATE record SET attributes = replace(attributes, 'tag.n', 'tag.m') WHERE id = 'credential.metadata.1'"
        )
        let store = try await bench.start()
        await #expect(throws: keystore(.damaged)) {
            try await #require(try store.credential(id: "1")).token
        }
        #expect(try await #require(try store.credential(id: "2")).token.id == "2")
        // It can still be removed.
        try #require(try store.credential(id: "1")).remove()
        #expect(try store.allCredentials.count == 3)
    }

    @Test func `a default that can't be read is not treated as missing`() async throws {
        let (bench, _) = try await bench()
        try tamper(bench, "UPDATE record SET attributes = '{}' WHERE id = 'credential.default'")
        let store = try await bench.start()
        #expect(throws: keystore(.damaged)) { try store.defaultCredential }
        // Removing, storing and setting the default still work.
        try #require(try store.credential(id: "1")).remove()
        try store.store(bench.provider.signIn(id: "5"))
        #expect(throws: keystore(.damaged)) { try store.defaultCredential }
        try store.setDefault(store.credential(id: "2"))
        #expect(try store.defaultCredential?.id == "2")
        try tamper(bench, "UPDATE record SET attributes = 'x' WHERE id = 'credential.default'")
        try store.setDefault(nil)
        #expect(try store.defaultCredential == nil)
    }

    @Test func `an app selects the claims that can be searched`() async throws {
        let bench = try Bench()
        let store = try await bench.start(
            configuration: CredentialConfiguration(copiedClaims: .only(["sub"]), clock: bench.clock)
        )
        let credential = try store.store(bench.provider.signIn())
        #expect(try credential.metadata.claims == ["sub": .string("jane")])
        #expect(try store.find { $0.email == "jane@example.com" }.isEmpty)
        #expect(try await credential.token.email == "jane@example.com")
    }
}
