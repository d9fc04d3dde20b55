import Crypto
import FoundationEssentials
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import RawDatabase
import Testing

/// Attacks that edit the rows of two keys with one PIN: no key signs instead of another one.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct KeyRowTests {
    private static let pin = "258025"

    /// A store with the keys ‘test’ and ‘other’.
    private struct Pair {
        let machine: Machine
        let test: HardwareKey
        let other: HardwareKey

        init(_ extra: [String]) async throws {
            machine = try Machine(tcti: SoftwareTPM.current.tcti)
            var keys: [HardwareKey] = []
            for label in ["test", "other"] {
                let created = try await machine.run(
                    ["key", "create", "--label", label, "--json"] + extra, pins: [KeyRowTests.pin])
                let id = try #require(created.json()["id"]?.string, "\(created.errors)")
                keys.append(
                    try JSONDecoder().decode(
                        HardwareKey.self, from: Data(storedKey(machine, id).utf8)))
            }
            (test, other) = (keys[0], keys[1])
        }

        func put(_ key: HardwareKey, into row: HardwareKey) throws {
            let text = String(decoding: try JSONEncoder().encode(key), as: UTF8.self)
            try store(machine, row.id.rawValue, text)
        }

        func sign(_ name: String = "test") async throws -> Outcome {
            try await machine.run(
                "key", "sign", name, "/dev/null", "--json", pins: [KeyRowTests.pin])
        }

        var attemptsLeft: Double? {
            get async throws {
                try await machine.run("pin", "status", "--json").json()["attemptsLeft"]?.number
            }
        }
    }

    enum Swap: CaseIterable {
        case labels, labelsAndIDs, blobs, material, everything, rowNames
    }

    @Test(arguments: Swap.allCases, [[], ["--revocable"]])
    func `swapped parts of two rows are reported as damage without a PIN attempt`(
        swap: Swap, extra: [String]
    )
        async throws
    {
        let pair = try await Pair(extra)
        let (test, other) = (pair.test, pair.other)
        let before = try await pair.attemptsLeft
        switch swap {
        case .labels:
            try pair.put(test.with(label: "other"), into: test)
            try pair.put(other.with(label: "test"), into: other)
        case .labelsAndIDs:
            try pair.put(test.with(id: other.id, label: "other"), into: test)
            try pair.put(other.with(id: test.id, label: "test"), into: other)
        case .blobs:
            try pair.put(test.replacing(blob: other.blob), into: test)
            try pair.put(other.replacing(blob: test.blob), into: other)
        case .material:
            try pair.put(other.with(id: test.id, label: "test"), into: test)
            try pair.put(test.with(id: other.id, label: "other"), into: other)
        case .everything:
            try pair.put(other, into: test)
            try pair.put(test, into: other)
        case .rowNames:
            let database = try DatabaseQueue.raw(at: pair.machine.databasePath)
            for (old, new) in [
                (test.id.rawValue, "x"), (other.id.rawValue, test.id.rawValue),
                ("x", other.id.rawValue),
            ] {
                try await database.write {
                    try $0.execute(
                        sql: "UPDATE record SET id = ? WHERE id = ?", arguments: [new, old])
                }
            }
        }
        for name in ["test", test.id.rawValue] {
            let outcome = try await pair.sign(name)
            #expect(outcome.status == 8, "\(name): \(outcome.output)")
            #expect(try outcome.json()["error"]?["code"] == "damaged")
        }
        #expect(try await pair.attemptsLeft == before)
    }

    /// The binding is not secret: an attacker can write the right one, with the digest of the whole
    /// row.
    @Test(arguments: [[], ["--revocable"]])
    func `another key with the right binding for its new row does not sign`(extra: [String])
        async throws
    {
        let pair = try await Pair(extra)
        let old = Data(KeyBinding(pair.other).digest)
        let new = Data(KeyBinding(pair.test).digest)
        var structure = pair.other.blob.dropLast(SHA256.byteCount)
        structure.replaceSubrange(try #require(structure.firstRange(of: old)), with: new)
        let forged = pair.other.replacing(
            blob: Data(structure) + Data(SHA256.hash(data: structure)))
        try pair.put(forged.with(id: pair.test.id, label: "test"), into: pair.test)
        let outcome = try await pair.sign()
        #expect(outcome.status == 4, "\(outcome.output)")
        #expect(try outcome.json()["signature"] == nil)
        #expect(try outcome.json()["error"]?["underlying"]?["code"]?.number == 0x98E)
    }

    @Test(arguments: [[], ["--revocable"], ["--policy", "none"]])
    func `a renamed key signs under its new label`(extra: [String]) async throws {
        let pair = try await Pair(extra)
        let (machine, id) = (pair.machine, pair.test.id.rawValue)
        #expect(try await machine.run("key", "rename", id, "").status == 2)
        if extra.last != "none" {
            #expect(
                try await machine.run("key", "rename", "test", "new", pins: ["000000"]).status == 4)
        }
        let renamed = try await machine.run(
            "key", "rename", "test", "new", "--json", pins: [Self.pin])
        #expect(renamed.status == 0, "\(renamed.errors)")
        #expect(try renamed.json()["label"] == "new")
        #expect(try await machine.run("key", "show", "new", "--json").json() == renamed.json())
        #expect(try await pair.sign("test").status == 6)
        #expect(try await pair.sign("new").status == 0)
        #expect(try await pair.sign("other").status == 0)
        #expect(
            try await machine.run("pin", "change", pins: [Self.pin, "654321"]).status
                == (extra.last == "none" ? 6 : 0))
        #expect(try await machine.run("key", "delete", id, "--yes").status == 0)
    }
}

extension HardwareKey {
    fileprivate func with(id: KeyID? = nil, label: String) -> HardwareKey {
        HardwareKey(
            id: id ?? self.id, backend: backend, policy: policy, assurance: assurance,
            publicKey: publicKey,
            label: label, createdAt: createdAt, blob: blob, authorization: authorization)
    }
}
