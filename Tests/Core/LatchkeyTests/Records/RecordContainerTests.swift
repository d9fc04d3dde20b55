import Foundation
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import RawDatabase
import Testing

/// The store with real record keys: each test has its own software TPM and directory.
@Suite(.softwareTPM)
struct RecordContainerTests {
    private let prompt = PromptContext(reason: "test the store")

    @Test func `the hardware decrypts a payload`() async throws {
        try await withContainer { container, store in
            let record = Record(id: "a", kind: "note", attributes: ["title": "one"])
            let stored = try await container.apply(
                [.put(record, payload: SecretBytes("secret".utf8), ifGeneration: 0)], for: prompt)
            #expect(stored.map(\.generation) == [1])
            await container.lock()
            let read = try #require(try await container.read("a", for: prompt))
            #expect(read.payload == SecretBytes("secret".utf8))
            #expect(read.record.attributes == ["title": "one"])
            let bytes = try Data(contentsOf: URL(fileURLWithPath: store.path))
            #expect(bytes.range(of: Data("secret".utf8)) == nil)
        }
    }

    @Test func `metadata needs no hardware`() async throws {
        try await withContainer { container, store in
            try await container.apply(
                [
                    .put(
                        Record(id: "a", kind: "note", attributes: ["n": "1"]), payload: nil,
                        ifGeneration: nil),
                    .put(
                        Record(id: "b", kind: "note", attributes: ["n": "2"]), payload: nil,
                        ifGeneration: nil),
                    .put(Record(id: "c", kind: "other"), payload: nil, ifGeneration: nil),
                ], for: prompt)
            let offline = try RecordContainer(
                store: store, keystore: TPMKeystore(tcti: "swtpm:path=/nonexistent", anchors: store)
            )
            #expect(try await offline.metadata("a")?.attributes == ["n": "1"])
            #expect(try await offline.metadata("z") == nil)
            #expect(try await offline.list("note").map(\.id) == ["a", "b"])
            await #expect(throws: unavailable) { try await offline.read("a", for: prompt) }
        }
    }

    @Test func `a change on a stale generation is a conflict and changes nothing`() async throws {
        try await withContainer { container, _ in
            let first = try await container.apply(
                [.put(Record(id: "a", kind: "note"), payload: nil, ifGeneration: 0)], for: prompt)
            await #expect(throws: conflict) {
                try await container.apply(
                    [
                        .put(Record(id: "b", kind: "note"), payload: nil, ifGeneration: nil),
                        .put(Record(id: "a", kind: "note"), payload: nil, ifGeneration: 0),
                    ], for: prompt)
            }
            #expect(try await container.metadata("b") == nil)
            #expect(try await container.metadata("a")?.generation == first[0].generation)
            await #expect(throws: conflict) {
                try await container.apply([.delete("a", ifGeneration: 99)], for: prompt)
            }
            try await container.apply(
                [.delete("a", ifGeneration: first[0].generation)], for: prompt)
            #expect(try await container.metadata("a") == nil)
        }
    }

    @Test func `generations are never reused`() async throws {
        try await withContainer { container, _ in
            var seen: [Int] = []
            for _ in 0..<3 {
                let put = RecordChange.put(
                    Record(id: "a", kind: "note"), payload: nil, ifGeneration: 0)
                seen += try await container.apply([put], for: prompt).map(\.generation)
                try await container.apply([.delete("a", ifGeneration: nil)], for: prompt)
            }
            #expect(seen == [1, 3, 5])
        }
    }

    /// Each authenticated column, changed by hand.
    @Test(arguments: [
        "kind = 'login.key'", "attributes = '{\"title\":\"two\"}'", "generation = 7",
        "createdAt = 7", "updatedAt = 7",
        "payload = NULL", "payload = substr(payload, 2)",
        "payload = CAST(payload || x'00' AS BLOB)",
        "payload = zeroblob(40)",
        "mac = zeroblob(32)", "mac = x''", "hardwareKey = '{}'", "attributes = '{'",
        "policy = '{\"requirement\":\"pin\"}'",
        "class = 'self-authenticated'", "class = 'other'", "id = 'b'",
    ])
    func `an edited row is damaged and stays as it is`(edit: String) async throws {
        try await withContainer { container, store in
            let record = Record(id: "a", kind: "note", attributes: ["title": "one"])
            try await container.apply(
                [.put(record, payload: SecretBytes("secret".utf8), ifGeneration: 0)], for: prompt)
            let queue = try DatabaseQueue.raw(at: store.path)
            try await queue.write { try $0.execute(sql: "UPDATE record SET \(edit)") }
            let before = try row(queue)
            await #expect(throws: damaged) {
                try await container.read(edit.hasPrefix("id") ? "b" : "a", for: prompt)
            }
            #expect(try row(queue) == before)
        }
    }

    /// U+212A (KELVIN SIGN) and K are equal as strings. The MAC covers bytes.
    @Test func `a read does not return an edit that was undone, even if its text looked the same`()
        async throws
    {
        try await withContainer { container, store in
            let record = Record(id: "a", kind: "note", attributes: ["title": "K"])
            try await container.apply([.put(record, payload: nil, ifGeneration: 0)], for: prompt)
            let queue = try DatabaseQueue.raw(at: store.path)
            func write(_ title: String) async throws {
                try await queue.write { database in
                    try database.execute(
                        sql: "UPDATE record SET attributes = ?",
                        arguments: ["{\"title\":\"\(title)\"}"])
                }
            }
            try await write("\u{212A}")
            let edited = try #require(try await container.metadata("a")?.attributes["title"])
            #expect(Array(edited.utf8) == Array("\u{212A}".utf8))
            await #expect(throws: damaged) { try await container.read("a", for: prompt) }
            try await write("K")
            let read = try #require(
                try await container.read("a", for: prompt)?.record.attributes["title"])
            #expect(Array(read.utf8) == Array("K".utf8))
        }
    }

    @Test func `a row cannot claim that it needs no MAC`() async throws {
        try await withContainer { container, store in
            let key = try await container.keystore.createKey(
                KeyRequest(policy: .none, prompt: prompt), authorizedBy: NobodyPresent())
            let record = Record(
                id: "login.key", kind: "login.key", attributes: ["owner": "alice"], key: key)
            try await container.apply([.put(record, payload: nil, ifGeneration: 0)], for: prompt)
            try await DatabaseQueue.raw(at: store.path).write {
                try $0.execute(
                    sql: """
                        UPDATE record SET kind = 'key', class = 'self-authenticated', mac = x'',
                            attributes = '{"owner":"mallory"}'
                        """)
            }
            await #expect(throws: damaged) { try await container.read("login.key", for: prompt) }
            let bare = Record(key: key)
            try await container.apply([.put(bare, payload: nil, ifGeneration: 0)], for: prompt)
            #expect(try await container.read(RecordID(key.id), for: prompt)?.record.key == key)
            let misnamed = Record(
                id: "login.other", kind: Record.keyKind, protection: .selfAuthenticated, key: key)
            await #expect(throws: invalidInput) {
                try await container.apply(
                    [.put(misnamed, payload: nil, ifGeneration: 0)], for: prompt)
            }
        }
    }

    @Test func `a changed assurance is damaged`() async throws {
        try await withContainer { container, _ in
            let made = try await container.keystore.createKey(
                KeyRequest(policy: .none, prompt: prompt), authorizedBy: NobodyPresent())
            let boasting = HardwareKey(
                id: made.id, backend: made.backend, policy: made.policy,
                assurance: AssuranceLevel(root: .tpm, presence: .none), publicKey: made.publicKey,
                label: nil,
                createdAt: made.createdAt, blob: made.blob)
            await #expect(throws: damaged) {
                try await container.keystore.sign(
                    MessageDigest(sha256: []), with: boasting, for: prompt,
                    authorizedBy: NobodyPresent())
            }
        }
    }

    @Test func `a row of another container is damaged`() async throws {
        try await withContainer { container, store in
            try await container.apply(
                [.put(Record(id: "a", kind: "note"), payload: nil, ifGeneration: 0)], for: prompt)
            let other = try RecordContainer(
                name: "other", store: store, keystore: container.keystore)
            try await other.apply(
                [.put(Record(id: "b", kind: "note"), payload: nil, ifGeneration: 0)], for: prompt)
            #expect(try await other.metadata("a") == nil)
            try await DatabaseQueue.raw(at: store.path).write {
                try $0.execute(sql: "UPDATE record SET container = 'other' WHERE id = 'a'")
            }
            await #expect(throws: damaged) { try await other.read("a", for: prompt) }
        }
    }

    @Test func `a missing record key is damage and is not replaced`() async throws {
        try await withContainer { container, store in
            try await container.apply(
                [.put(Record(id: "a", kind: "note"), payload: SecretBytes([1]), ifGeneration: 0)],
                for: prompt)
            await container.lock()
            try await DatabaseQueue.raw(at: store.path).write {
                try $0.execute(sql: "DELETE FROM classKey")
            }
            await #expect(throws: damaged) { try await container.read("a", for: prompt) }
            await #expect(throws: damaged) {
                try await container.apply(
                    [.put(Record(id: "b", kind: "note"), payload: nil, ifGeneration: 0)],
                    for: prompt)
            }
        }
    }

    @Test func `a class with a PIN prompts once, until it is locked`() async throws {
        try await withContainer { container, _ in
            let gated = ProtectionClass(name: "gated", policy: .pin)
            let presence = ScriptedPresence(pins: "4938", "4938", "0000")
            let record = Record(id: "a", kind: "note", protection: gated)
            try await container.apply(
                [.put(record, payload: SecretBytes([7]), ifGeneration: 0)], for: prompt,
                authorizedBy: presence)
            #expect(presence.requests.map(\.purpose) == [.new])
            _ = try await container.read("a", for: prompt, authorizedBy: presence)
            #expect(presence.requests.count == 1)
            await container.lock()
            #expect(
                try await container.read("a", for: prompt, authorizedBy: presence)?.payload
                    == SecretBytes([7]))
            await container.lock()
            await #expect(throws: wrongProof) {
                try await container.read("a", for: prompt, authorizedBy: presence)
            }
            await #expect(throws: unavailable) { try await container.read("a", for: prompt) }
        }
    }

    @Test func `tasks that open a class at once prompt once`() async throws {
        try await withContainer { container, _ in
            let gated = ProtectionClass(name: "gated", policy: .pin)
            let presence = ScriptedPresence(pins: "4938", "4938", "4938")
            let record = Record(id: "a", kind: "note", protection: gated)
            try await container.apply(
                [.put(record, payload: SecretBytes([7]), ifGeneration: 0)], for: prompt,
                authorizedBy: presence)
            await container.lock()
            let before = presence.requests.count
            try await withThrowingTaskGroup { group in
                for _ in 0..<8 {
                    group.addTask {
                        try await container.open(gated, for: prompt, authorizedBy: presence)
                    }
                }
                try await group.waitForAll()
            }
            #expect(presence.requests.count == before + 1)
        }
    }

    @Test func `changing the PIN changes it for keys and classes together`() async throws {
        try await withContainer { container, _ in
            let gated = ProtectionClass(name: "gated", policy: .pin)
            let setup = ScriptedPresence(pins: "4938", "4938", "4938")
            let key = try await container.keystore.createKey(
                KeyRequest(policy: .pin, prompt: prompt), authorizedBy: setup)
            let keyRecord = Record(key: key)
            try await container.apply(
                [
                    .put(keyRecord, payload: nil, ifGeneration: 0),
                    .put(
                        Record(id: "a", kind: "note", protection: gated), payload: SecretBytes([7]),
                        ifGeneration: 0),
                ], for: prompt, authorizedBy: setup)
            let change = ScriptedPresence(pins: "4938", "ปลอดภัย")
            #expect(try await container.changePIN(for: prompt, authorizedBy: change) == 2)
            #expect(change.requests.map(\.purpose) == [.current, .new])
            await container.lock()
            let changed = try #require(try await container.metadata(RecordID(key.id))?.key)
            let digest = MessageDigest(sha256: "message".utf8)
            let signature = try await container.keystore.sign(
                digest, with: changed, for: prompt, authorizedBy: ScriptedPresence(pins: "ปลอดภัย"))
            #expect(key.publicKey.isValid(signature, for: digest))
            #expect(
                try await container.read(
                    "a", for: prompt, authorizedBy: ScriptedPresence(pins: "ปลอดภัย"))?.payload
                    == SecretBytes([7]))
            await #expect(throws: wrongProof) {
                try await container.keystore.sign(
                    digest, with: changed, for: prompt, authorizedBy: ScriptedPresence(pins: "4938")
                )
            }
        }
    }

    @Test func `two stores on one file create one record key`() async throws {
        try await withContainer { container, store in
            let directory = URL(fileURLWithPath: store.path).deletingLastPathComponent()
                .deletingLastPathComponent()
            let second = try await RecordStore(directory: directory.path)
            let other = try RecordContainer(store: second, keystore: container.keystore)
            try await withThrowingTaskGroup { group in
                for (number, container) in [container, other].enumerated() {
                    let record = Record(id: RecordID(rawValue: "r\(number)"), kind: "note")
                    group.addTask {
                        _ = try await container.apply(
                            [.put(record, payload: SecretBytes([UInt8(number)]), ifGeneration: 0)],
                            for: prompt)
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await container.read("r1", for: prompt)?.payload == SecretBytes([1]))
            #expect(try await other.read("r0", for: prompt)?.payload == SecretBytes([0]))
        }
    }

    private func row(_ queue: DatabaseQueue) throws -> Row? {
        try queue.read { try Row.fetchOne($0, sql: "SELECT * FROM record") }
    }

    private func withContainer(_ body: (RecordContainer, RecordStore) async throws -> Void)
        async throws
    {
        try await TemporaryDirectory.withDirectory { temporary in
            let directory = temporary.path
            let store = try await RecordStore(directory: directory)
            let keystore = try TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store)
            try await body(try RecordContainer(store: store, keystore: keystore), store)
        }
    }
}
