import Foundation
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import RawDatabase
import Testing

/// Finding records by their attributes.
@Suite(.softwareTPM)
struct RecordQueryTests {
    private let prompt = PromptContext(reason: "test the store")
    private static let isRed = RecordQuery.attribute("colour", is: "red")
    private static let isBig = RecordQuery.attribute("size", is: "big")

    private static let colours = [
        "a": ["colour": "red"], "b": ["colour": "red", "size": "big"], "c": ["size": "big"],
    ]

    @Test(
        arguments: [
            (isRed, "ab"), (.attribute("colour", is: "blue"), ""), (.hasAttribute("size"), "bc"),
            (.all, "abcd"),
            (.not(isRed), "cd"), (.and(isRed, isBig), "b"), (.or(isRed, isBig), "abc"),
            (.id("c"), "c"), (.id("z"), ""),
            (.not(.or(isRed, isBig)), "d"), (.and(.not(isRed), .or(isBig, .id("d"))), "cd"),
        ] as [(RecordQuery, String)])
    func `a query finds what matches, oldest first`(query: RecordQuery, ids: String) async throws {
        try await withContainer { container, _ in
            for id in "abcd" {
                let record = Record(
                    id: RecordID(rawValue: String(id)), kind: "note",
                    attributes: Self.colours[String(id)] ?? [:])
                try await container.apply(
                    [.put(record, payload: nil, ifGeneration: 0)], for: prompt)
            }
            let other = Record(
                id: "x", kind: "other", attributes: ["colour": "red", "size": "big"])
            try await container.apply([.put(other, payload: nil, ifGeneration: 0)], for: prompt)
            let found = try container.findNow("note", where: query)
            #expect(found.records.map(\.id.rawValue).joined() == ids)
            #expect(found.unreadable.isEmpty)
            let scanned = try container.scanNow("note", query.matches)
            #expect(scanned.records == found.records)
        }
    }

    @Test func `a search with many candidates gives the same as a check of each record`()
        async throws
    {
        try await withContainer { container, _ in
            let records = (0..<1200).map { number in
                let attributes = [
                    "even": "\(number % 2 == 0)", "third": "\(number % 3 == 0)",
                    "number": "\(number)",
                ]
                return Record(
                    id: RecordID(rawValue: "r\(number)"), kind: "note", attributes: attributes)
            }
            try await container.apply(
                records.map { .put($0, payload: nil, ifGeneration: 0) }, for: prompt)
            let (even, third) = (
                RecordQuery.attribute("even", is: "true"),
                RecordQuery.attribute("third", is: "true")
            )
            let seven = RecordQuery.attribute("number", is: "7")
            let queries: [RecordQuery] = [
                .and(even, third), .and(.not(even), third), .not(.and(even, third)),
                .and(even, seven),
                .and(seven, .not(third)), .not(.or(even, .and(third, .not(seven)))),
                .or(.and(even, third), seven),
                .not(.and(seven, even)),
            ]
            for query in queries {
                let found = try container.findNow("note", where: query).records
                #expect(found == (try container.scanNow("note", query.matches).records), "\(query)")
            }
        }
    }

    @Test func `the index follows every change`() async throws {
        try await withContainer { container, store in
            func put(_ attributes: [String: String]) async throws {
                try await container.apply(
                    [
                        .put(
                            Record(id: "a", kind: "note", attributes: attributes), payload: nil,
                            ifGeneration: nil)
                    ],
                    for: prompt)
            }
            func ids(_ query: RecordQuery) throws -> [RecordID] {
                try container.findNow("note", where: query).records.map(\.id)
            }
            try await put(["colour": "red", "size": "big"])
            try await put(["colour": "blue", "size": "big"])
            #expect(try ids(.attribute("colour", is: "red")) == [])
            #expect(try ids(.attribute("colour", is: "blue")) == ["a"])
            try await put([:])
            #expect(try ids(.hasAttribute("size")) == [])
            try await put(["size": "small"])
            try await container.apply([.delete("a", ifGeneration: nil)], for: prompt)
            let left = try await DatabaseQueue.raw(at: store.path).read {
                try Int.fetchOne($0, sql: "SELECT count(*) FROM recordAttribute")
            }
            #expect(left == 0)
        }
    }

    @Test func `a changed index finds no record that does not match`() async throws {
        try await withContainer { container, store in
            try await container.apply(
                [
                    .put(
                        Record(id: "a", kind: "note", attributes: ["colour": "blue"]), payload: nil,
                        ifGeneration: 0)
                ],
                for: prompt)
            try await DatabaseQueue.raw(at: store.path).write {
                try $0.execute(
                    sql: "INSERT INTO recordAttribute VALUES ('default', 'colour', 'red', 'a')")
            }
            #expect(try container.findNow("note", where: Self.isRed).records.isEmpty)
        }
    }

    @Test func `a damaged row is reported and hides no other`() async throws {
        try await withContainer { container, store in
            for id in ["a", "b"] {
                let record = Record(
                    id: RecordID(rawValue: id), kind: "note", attributes: ["colour": "red"])
                try await container.apply(
                    [.put(record, payload: nil, ifGeneration: 0)], for: prompt)
            }
            try await DatabaseQueue.raw(at: store.path).write {
                try $0.execute(sql: "UPDATE record SET policy = '{' WHERE id = 'a'")
            }
            let found = try container.findNow("note", where: Self.isRed)
            #expect(found.records.map(\.id) == ["b"])
            #expect(found.unreadable == [damaged])
        }
    }

    private func withContainer(_ body: (RecordContainer, RecordStore) async throws -> Void)
        async throws
    {
        let directory = try TemporaryDirectory()
        let store = try await RecordStore(directory: directory.path)
        let keystore = try TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store)
        try await body(try RecordContainer(store: store, keystore: keystore), store)
    }
}
