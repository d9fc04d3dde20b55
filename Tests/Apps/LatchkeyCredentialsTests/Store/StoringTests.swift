import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

/// Storing, default, tags and removal, over each kind of hardware.
@Suite(.softwareTPM)
struct StoringTests {
    @Test func `a token whose context names another server is refused before the prompt`()
        async throws
    {
        let bench = try Bench()
        let presence = ScriptedPresence(pins: "2468", "2468")
        let store = try await bench.start(presence: presence)
        let right = try bench.provider.signIn()
        let answer = [
            "access_token": "a", "token_type": "Bearer",
            "id_token": try #require(right.idToken).rawValue,
        ]
        let wrong = try Token(
            response: JSONEncoder().encode(answer),
            context: Token.Context(issuer: "https://other.test", clientID: "app"))
        await #expect(throws: credentials(.invalidInput)) {
            try await store.store(wrong, security: .pin)
        }
        #expect(throws: credentials(.invalidInput)) { try store.store(wrong) }
        #expect(try presence.requests.isEmpty && store.allIDs.isEmpty)
        let stored = try await store.store(right, security: .pin)
        await #expect(throws: credentials(.invalidInput)) { try await stored.replace(with: wrong) }
        #expect(presence.requests.count == 1)
    }

    @Test(.softwareToken, arguments: Hardware.allCases)
    func `a stored token is unchanged after a restart`(hardware: Hardware) async throws {
        let bench = try Bench(hardware)
        let token = try bench.provider.signIn(deviceSecret: true)
        let stored = try await bench.start().store(token, tags: ["service": "purchase"])
        #expect(try await stored.token == token)

        bench.clock.advance(by: 100)
        let again = try #require(try await bench.start().credential(id: token.id))
        let read = try await again.token
        #expect(read == token)
        // Not fresh because it was just read.
        #expect(read.expiresAt == bench.clock.now.addingTimeInterval(3500))
        #expect(again.tags == ["service": "purchase"])
        #expect(try again.metadata.claims["email"] == .string("jane@example.com"))
        #expect(try again.metadata.claims["exp"] != nil)
        #expect(try again.metadata.isRefreshable)
        let file = try Data(contentsOf: URL(filePath: bench.databasePath))
        #expect(file.range(of: Data(token.accessToken.utf8)) == nil)
    }

    @Test func `storing a token twice is refused`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let token = try bench.provider.signIn()
        let first = try store.store(token, tags: ["a": "1"])
        #expect(throws: credentials(.duplicate)) { try store.store(token) }
        await #expect(throws: credentials(.duplicate)) {
            try await store.store(token, security: .pin)
        }
        #expect(try store.credential(for: token) === first)
        #expect(try store.credential(id: token.id) === first)
        #expect(first.tags == ["a": "1"])
        #expect(try store.allCredentials == [first])
    }

    @Test func `equal tokens with two ids are two credentials`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let answer = try JSONEncoder().encode(["access_token": "a", "token_type": "Bearer"])
        let context = Token.Context(issuer: "https://id.test", clientID: "app")
        let tokens = try ["one", "two"].map {
            try Token(response: answer, context: context, id: $0)
        }
        let stored = try tokens.map { try store.store($0, tags: ["id": $0.id]) }
        #expect(stored[0] !== stored[1])
        #expect(try store.find { $0.tags["id"] == "two" } == [stored[1]])
        #expect(try await stored[1].token.id == "two")
        #expect(try store.allCredentials.map(\.id) == ["one", "two"])
    }

    @Test
    func
        `a default that another program removed is cleared, and the next first token becomes the default`()
        async throws
    {
        let bench = try Bench()
        let store = try await bench.start()
        try store.store(bench.provider.signIn(id: "a"))
        try tamper(bench, "DELETE FROM record WHERE id LIKE 'credential.%.a'", rows: 2)
        #expect(try store.defaultCredential == nil)
        try store.store(bench.provider.signIn(id: "b"))
        #expect(try store.defaultCredential?.id == "b")
    }

    @Test func `a token of a newer version is unsupported, not damaged`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let credential = try store.store(bench.provider.signIn(id: "a"))
        let (records, _) = try await bench.records()
        let newer = SecretBytes(Array(#"{"version":2,"id":"a","secrets":{}}"#.utf8))
        try await records.apply(
            [
                .put(
                    Record(id: "credential.token.a", kind: "credential.token"), payload: newer,
                    ifGeneration: nil)
            ],
            for: PromptContext(reason: "be newer", container: "default"))
        await #expect(throws: keystore(.unsupported)) { try await credential.token }
        await #expect(throws: keystore(.unsupported)) { try await credential.refresh() }
        #expect(
            try await bench.records().0.read(
                "credential.token.a", for: PromptContext(reason: "look", container: "default"))?
                .payload == newer)
        try credential.remove()
    }

    @Test func `a token of a new login replaces the old one`() async throws {
        let bench = try Bench()
        let store = try await bench.start(
            presence: ScriptedPresence(pins: Bench.pin, Bench.pin, Bench.pin))
        let credential = try await store.store(
            bench.provider.signIn(id: "a", lifetime: 60), tags: ["x": "1"], security: .pin)
        let token = try bench.provider.signIn()
        try await credential.replace(with: token)
        #expect(try await credential.token.accessToken == token.accessToken)
        #expect(try store.allIDs == ["a"])
        #expect(try store.defaultCredential == credential)
        #expect(credential.tags == ["x": "1"])
        #expect(try credential.security == .pin)
        #expect(try credential.metadata.expiresAt == token.expiresAt)
        let plain = try store.store(bench.provider.signIn(id: "b"))
        await #expect(throws: credentials(.refused)) {
            try await plain.replace(with: bench.provider.signIn(subject: "eve"))
        }
    }

    @Test func `many concurrent tasks succeed`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let count = 4 * ProcessInfo.processInfo.activeProcessorCount
        try await withThrowingTaskGroup { group in
            for number in 0..<count {
                group.addTask {
                    let credential = try store.store(
                        bench.provider.signIn(id: "\(number)"), tags: ["n": "\(number)"])
                    switch number % 4 {
                    case 0: try credential.remove()
                    case 1: try await credential.revoke()
                    case 2: try await credential.refresh()
                    default: try credential.setTags([:])
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try store.allIDs.count == count / 2)
    }

    @Test func `the first and the last credential may be stored and removed at the same time`()
        async throws
    {
        let bench = try Bench()
        let store = try await bench.start()
        let others = [try await bench.start(), try await bench.start()]
        // Threads instead of tasks: they interleave between any two steps, and do not block other
        // tests.
        try await withThrowingTaskGroup { group in
            for number in 0..<6 {
                let store = [store, others[0], others[1]][number % 3]
                group.addTask {
                    try await withCheckedThrowingContinuation {
                        (ended: CheckedContinuation<Void, any Error>) in
                        Thread.detachNewThread {
                            ended.resume(
                                with: Result {
                                    for round in 0..<8 {
                                        try store.store(
                                            bench.provider.signIn(id: "\(number)-\(round)")
                                        ).remove()
                                    }
                                })
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try store.allIDs.isEmpty)
        #expect(try store.defaultCredential == nil)
    }

    @Test func `removing a credential deletes all of its rows`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let credential = try store.store(bench.provider.signIn(), tags: ["a": "1"])
        try credential.remove()
        #expect(try store.credential(id: credential.id) == nil)
        #expect(try store.find { $0.tags["a"] == "1" }.isEmpty)
        #expect(throws: credentials(.notFound)) { try credential.remove() }
        #expect(throws: credentials(.notFound)) { try credential.metadata }
        #expect(throws: credentials(.notFound)) { try credential.setTags([:]) }
        await #expect(throws: credentials(.notFound)) { try await credential.token }
        await #expect(throws: credentials(.notFound)) { try await credential.refresh() }
        let (records, _) = try await bench.records()
        #expect(try records.idsNow("credential.token").isEmpty)
    }

    @Test func `removing uses no hardware`() async throws {
        let bench = try Bench()
        let id = try await bench.start().store(bench.provider.signIn()).id
        let offline = try await bench.start(keystore: AbsentKeystore(), isOpen: false)
        try #require(try offline.credential(id: id)).remove()
        #expect(try offline.allCredentials.isEmpty)
        #expect(try offline.defaultCredential == nil)
    }

    @Test func `each change is one event, after it is stored`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let events = store.events
        let credential = try store.store(bench.provider.signIn(id: "a"), tags: ["x": "y"])
        try store.setDefault(credential)
        credential.tags = ["z": "1"]
        credential.tags = ["z": "1"]
        try store.setDefault(nil)
        try store.setDefault(credential)
        try credential.remove()
        try store.setDefault(nil)
        try store.store(bench.provider.signIn(id: "b"))
        #expect(
            await names(of: events, count: 8) == [
                "created a", "default a", "tagged a", "default none", "default a", "removed a",
                "default none",
                "created b",
            ])
    }

    @Test func `a notification arrives after its change is stored`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let seen = Mutex<[String]>([])
        let id = Token.newID()
        let observers = [Notification.Name.credentialCreated, .defaultCredentialChanged].map {
            name in
            NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) {
                notification in
                guard let credential = notification.object as? Credential, credential.id == id
                else { return }
                let isDefault = (try? store.defaultCredential) == credential
                seen.withLock {
                    $0.append("\(name.rawValue) \(credential.tags["a"] ?? "") \(isDefault)")
                }
            }
        }
        defer { observers.forEach(NotificationCenter.default.removeObserver) }
        try store.store(bench.provider.signIn(id: id), tags: ["a": "1"])
        await poll { seen.withLock { $0.count } >= 2 }
        #expect(
            seen.withLock { $0 } == [
                "LatchkeyCredentialCreated 1 true", "LatchkeyDefaultCredentialChanged 1 true",
            ])
    }

    @Test func `tags change without opening the token, and keep its protection`() async throws {
        let bench = try Bench()
        let presence = ScriptedPresence(pins: Bench.pin)
        let store = try await bench.start(presence: presence)
        let credential = try await store.store(
            bench.provider.signIn(), tags: ["a": "1"], security: .pin)
        #expect(presence.requests.count == 1)
        try credential.setTags(["b": "2"])
        #expect(presence.requests.count == 1)
        #expect(try credential.security == .pin)
        #expect(try credential.metadata.security == .pin)
        #expect(try store.find { $0.tags["a"] == "1" }.isEmpty)
        #expect(try await bench.start().find { $0.tags["b"] == "2" }.map(\.id) == [credential.id])
    }

    @Test func `tags that can't be stored are refused`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let token = try bench.provider.signIn()
        for tags in [
            ["": "x"], ["a\n": "x"], ["a": "\u{1b}"], ["a": String(repeating: "x", count: 1025)],
        ] {
            #expect(throws: credentials(.invalidInput)) { try store.store(token, tags: tags) }
        }
        #expect(try store.allCredentials.isEmpty)
    }

    @Test(.softwareToken, arguments: Hardware.allCases)
    func `a token with a policy prompts each time, and a wrong PIN does not open it`(
        hardware: Hardware
    ) async throws {
        let bench = try Bench(hardware)
        let pin = try hardware.pin
        // A token has its PIN already, and is asked for it; a TPM's key gets one.
        let first: PINRequest.Purpose = hardware == .softwareTPM ? .new : .current
        let presence = ScriptedPresence([.pin(pin), .pin(pin), .pin("0000"), .decline])
        let store = try await bench.start(presence: presence)
        let token = try bench.provider.signIn()
        let credential = try await store.store(token, security: .pin)
        #expect(presence.requests.map(\.purpose) == [first])
        #expect(try await credential.token == token)
        await #expect(throws: keystore(.wrongProof)) { try await credential.token }
        await #expect(throws: keystore(.cancelled)) { try await credential.token }
        #expect(presence.requests.map(\.purpose) == [first, .current, .current, .current])
        // The metadata can still be read.
        #expect(try store.find { $0.subject == "jane" } == [credential])
        await #expect(throws: keystore(.unavailable)) {
            try await #require(
                try await bench.start(presence: NobodyPresent()).credential(id: token.id)
            ).token
        }
    }

    @Test(.softwareToken)
    func `one verification opens tokens for the policy's reuse time, until the store is locked`()
        async throws
    {
        let bench = try Bench(.softwareToken)
        let pin = try bench.hardware.pin
        let presence = ScriptedPresence([.pin(pin), .decline, .pin(pin)])
        let store = try await bench.start(presence: presence)
        let token = try bench.provider.signIn()
        let credential = try await store.store(
            token, security: try #require(AccessPolicy(.pin, reuseSeconds: 300)))
        #expect(try await credential.token == token)
        #expect(presence.asked.count == 1)
        store.lock()
        await #expect(throws: keystore(.cancelled)) { try await credential.token }
        #expect(try await credential.token == token)
        #expect(presence.asked.count == 3)
    }

    @Test func `a policy that the hardware can't enforce is refused, not weakened`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        await #expect(throws: keystore(.unavailable)) {
            try await store.store(bench.provider.signIn(), security: .biometryAny)
        }
        #expect(try store.allCredentials.isEmpty)
    }

    @Test func `before the store is open, tokens are neither written nor read synchronously`()
        async throws
    {
        let bench = try Bench()
        let store = try await bench.start(isOpen: false)
        let token = try bench.provider.signIn()
        #expect(throws: keystore(.wrongState)) { try store.store(token) }
        #expect(try store.allCredentials.isEmpty)
        // Asynchronous calls open it.
        #expect(try await store.store(token, security: .none).token == token)
    }
}
