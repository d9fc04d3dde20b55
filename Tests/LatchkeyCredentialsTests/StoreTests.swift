import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// Storing, finding, tagging and removing.
@Suite(.softwareTPM)
struct StoreTests {
    @Test func `a stored token comes back after a restart, and expires when it did before`() async throws {
        let scene = try Scene()
        let token = try scene.token("t1", lifetime: 600)
        try await scene.start().store(token: token, tags: ["service": "purchase"])
        scene.clock.advance(500)
        let again = try await scene.start()
        let credential = try #require(try again.with(id: "t1"))
        #expect(try credential.token.accessToken == "access-0")
        #expect(credential.tags == ["service": "purchase"])
        #expect(try !credential.token.expires(within: 90, of: scene.clock.now()))
        #expect(try credential.token.expires(within: 101, of: scene.clock.now()))
        #expect(try again.with(id: "t2") == nil)
        #expect(try again.with(id: "../../etc") == nil)
    }

    @Test func `a token is stored once`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        let first = try await store.store(token: scene.token("t1"), tags: ["a": "1"])
        await #expect(throws: conflict) { try await store.store(token: scene.token("t1"), tags: ["a": "2"]) }
        #expect(first.tags == ["a": "1"])
        #expect(try await store.with(token: scene.token("t1")) === first)
        #expect(try store.with(id: "t1") === first)
        let fresh = try await store.with(token: scene.token("t2"))
        #expect(try store.all() == [first, fresh])
    }

    @Test func `equal tokens under two ids are two credentials`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        let one = try await store.store(token: scene.token("t1"), tags: ["n": "1"])
        let two = try await store.store(token: scene.token("t2"), tags: ["n": "2"])
        #expect(one !== two)
        #expect(try store.find { $0.tags["n"] == "2" } == [two])
    }

    @Test func `the first token is the default, and nobody is promoted`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        #expect(try store.defaultCredential() == nil)
        let first = try await store.store(token: scene.token("t1"))
        let second = try await store.store(token: scene.token("t2"))
        #expect(try store.defaultCredential() === first)
        try await store.setDefault(second)
        #expect(try await scene.start().defaultCredential()?.id == "t2")
        try await store.setDefault(nil)
        #expect(try store.defaultCredential() == nil)
        #expect(try store.all().count == 2)
        try await store.setDefault(second)
        try await second.remove()
        #expect(try store.defaultCredential() == nil)
        _ = try await store.store(token: scene.token("t3"))
        #expect(try store.defaultCredential() == nil)
        await #expect(throws: notFound) { try await store.setDefault(second) }
    }

    @Test func `what was removed is gone, and only once`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        let credential = try await store.store(token: scene.token("t1"))
        _ = try await store.store(token: scene.token("t2"))
        try await credential.remove()
        #expect(try store.allIDs() == ["t2"])
        #expect(try store.with(id: "t1") == nil)
        #expect(throws: notFound) { try credential.token }
        #expect(throws: notFound) { try credential.metadata }
        await #expect(throws: notFound) { try await credential.remove() }
        let again = try await store.store(token: scene.token("t1"))
        #expect(again !== credential)
        #expect(try store.allIDs() == ["t2", "t1"])
    }

    @Test func `tags are replaced, survive a restart, and open nothing`() async throws {
        let scene = try Scene()
        let presence = ScriptedPresence(pins: "2468")
        let store = try await scene.start(presence)
        let credential = try await store.store(token: scene.token("t1"), tags: ["a": "1"], security: .pin)
        try credential.lock()
        try await credential.setTags(["b": "2"])
        #expect(presence.requests.map(\.purpose) == [.new])
        let again = try await scene.start()
        #expect(try again.find { $0.tags["a"].isPresent } == [])
        let found = try #require(try again.find { $0.tags["b"] == "2" }.first)
        #expect(try found.metadata.security == .pin)
        #expect(found.tags == ["b": "2"])
        #expect(throws: wrongState) { try found.token }
        await #expect(throws: invalidInput) { try await found.setTags(["": "x"]) }
        found.tags["c"] = "3"
        #expect(found.tags == ["b": "2", "c": "3"])
    }

    @Test func `a policy opens tokens for whoever is present, and locks them again`() async throws {
        let scene = try Scene()
        let presence = ScriptedPresence([.pin("2468"), .decline, .pin("1111"), .pin("2468")])
        let store = try await scene.start(presence)
        let credential = try await store.store(token: scene.token("t1"), security: .pin)
        let sibling = try await store.store(token: scene.token("t2"), security: .pin)
        #expect(try credential.token.id == "t1" && sibling.token.id == "t2")
        try sibling.lock()
        #expect(throws: wrongState) { try credential.token }
        await #expect(throws: cancelled) { try await credential.unlock() }
        await #expect(throws: wrongProof) { try await credential.unlock() }
        #expect(try await credential.unlock().accessToken == "access-0")
        #expect(try sibling.token.id == "t2")
        #expect(presence.requests.count == 4)
        await #expect(throws: unsupported) { try await store.store(token: scene.token("t3"), security: .biometryAny) }
        #expect(try store.allIDs() == ["t1", "t2"])
        try await credential.remove()
    }

    @Test func `finding and listing need no hardware and open no token`() async throws {
        let scene = try Scene()
        _ = try await scene.start().store(token: scene.token("t1"), tags: ["a": "1"], security: .pin)
        let offline = try await scene.start(NobodyPresent(), tcti: "swtpm:path=/nonexistent", isOpen: false)
        #expect(try offline.find { $0.tags["a"] == "1" }.map(\.id) == ["t1"])
        #expect(try offline.find { $0.tags["a"]?.hasPrefix("1") ?? false }.map(\.id) == ["t1"])
        #expect(try offline.defaultCredential()?.metadata.subject == "jane")
        #expect(try offline.allIDs() == ["t1"])
        #expect(throws: wrongState) { try offline.with(id: "t1")?.token }
        await #expect(throws: unavailable) { try await offline.with(id: "t1")?.unlock() }
    }

    @Test func `conditions find by tags and claims, as a look at each would`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        for (id, subject, service) in [("t1", "jane", "purchase"), ("t2", "june", "purchase"), ("t3", "jane", "mail")] {
            let token = try scene.token(id, claims: ["sub": subject, "email": "\(subject)@x", "vip": true])
            try await store.store(token: token, tags: ["service": service])
        }
        try await store.store(token: scene.token("t4", claims: nil))
        func ids(_ condition: (CredentialFields) -> CredentialQuery) throws -> String {
            try store.find(where: condition).map(\.id).joined(separator: " ")
        }
        #expect(try ids { $0.tags["service"] == "purchase" } == "t1 t2")
        #expect(try ids { $0.subject == "jane" } == "t1 t3")
        #expect(try ids { $0.subject == "jane" && $0.tags["service"] == "mail" } == "t3")
        #expect(try ids { $0.email == "june@x" || $0.id == "t4" } == "t2 t4")
        #expect(try ids { $0.subject != "jane" } == "t2 t4")
        #expect(try ids { !($0["sub"].isPresent) } == "t4")
        #expect(try ids { $0.issuer == Provider.issuer } == "t1 t2 t3")
        #expect(try store.find { $0["vip"] == .bool(true) }.count == 3)
        #expect(try store.find { $0.subject == nil }.map(\.id) == ["t4"])
    }

    @Test func `claims that were not chosen are nowhere in the clear`() async throws {
        let scene = try Scene()
        let store = try await scene.start { $0.claims = .only(["sub"]) }
        let credential = try await store.store(token: scene.token("t1", claims: ["email": "canary@x"]))
        #expect(Set(try credential.metadata.claims.keys) == ["sub"])
        #expect(try credential.token.email == "canary@x")
        for file in ["latchkey.sqlite", "latchkey.sqlite-wal"] {
            let bytes = try Data(contentsOf: URL(filePath: scene.directory.path(of: "default/\(file)")))
            for secret in ["canary@x", "access-0", "refresh-0"] { #expect(bytes.range(of: Data(secret.utf8)) == nil) }
        }
    }

    @Test(arguments: [
        "payload = zeroblob(40)", "payload = NULL", "generation = 99", "kind = 'note'", "attributes = '{'",
        "class = 'credentials.pin.0'",
    ])
    func `a damaged token is neither absent nor signed out, hides no other, and can be removed`(
        edit: String
    ) async throws {
        let scene = try Scene()
        _ = try await scene.start().store(token: scene.token("t1"))
        _ = try await scene.start().store(token: scene.token("t2"))
        try await scene.sql("UPDATE record SET \(edit) WHERE id = 'credential.token.t1'")
        let store = try await scene.start()
        let damagedOne = try #require(try store.defaultCredential())
        #expect(damagedOne.id == "t1")
        #expect(throws: damaged) { try damagedOne.token }
        #expect(try store.all().map(\.id) == ["t1", "t2"])
        #expect(try store.find { $0.subject == "jane" }.count == 2)
        try await damagedOne.remove()
        #expect(try store.all().map(\.id) == ["t2"])
    }

    @Test func `metadata that can't be read is told of and hides no other`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        for id in ["t1", "t2"] { _ = try await store.store(token: scene.token(id), tags: ["a": "1"]) }
        try await scene.sql("UPDATE record SET attributes = '{' WHERE id = 'credential.data.t1'")
        var events = store.events.makeAsyncIterator()
        #expect(try store.find { $0.tags["a"] == "1" }.map(\.id) == ["t2"])
        guard case .unreadable(let error) = await events.next() else {
            Issue.record("nobody was told")
            return
        }
        #expect(error == damaged)
        #expect(throws: damaged) { try store.with(id: "t1")?.metadata }
        try await store.with(id: "t1")?.remove()
        #expect(try store.allIDs() == ["t2"])
    }

    @Test func `metadata that somebody edited is not signed again`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        let credential = try await store.store(token: scene.token("t1"))
        try await scene.sql(
            "UPDATE record SET attributes = replace(attributes, 'jane', 'mallory') WHERE id = 'credential.data.t1'")
        await #expect(throws: damaged) { try await credential.setTags(["a": "1"]) }
    }

    @Test func `programs see each other's credentials, and the default is one for all`() async throws {
        let scene = try Scene()
        let (mine, theirs) = try await (scene.start(), scene.start())
        async let one = mine.store(token: scene.token("t1"))
        async let two = theirs.store(token: scene.token("t2"))
        let ids = try await [one.id, two.id]
        #expect(Set(try mine.allIDs()) == Set(ids))
        let first = try #require(try mine.allIDs().first)
        #expect(try mine.defaultCredential()?.id == theirs.defaultCredential()?.id)
        #expect(try mine.defaultCredential()?.id == first)
        try await theirs.with(id: "t1")?.remove()
        #expect(try mine.with(id: "t1") == nil)
    }

    @Test func `many tasks at once neither wait for ever nor lose anything`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        let count = ProcessInfo.processInfo.activeProcessorCount * 8
        try await withThrowingTaskGroup { group in
            for number in 0..<count {
                let token = try scene.token("t\(number)")
                group.addTask {
                    let credential = try await store.store(token: token, tags: ["n": "\(number)"])
                    try await credential.setTags(["n": "\(number + 1000)"])
                    if number % 2 == 0 { try await credential.remove() }
                }
            }
            try await group.waitForAll()
        }
        #expect(try store.all().count == count / 2)
        for number in stride(from: 1, to: count, by: 2) {
            #expect(try store.find { $0.tags["n"] == "\(number + 1000)" }.map(\.id) == ["t\(number)"])
        }
    }
}
