import Foundation
import Latchkey
import Testing

struct KeyIDTests {
    @Test(arguments: ["12345678", "A_b-C019", String(repeating: "x", count: 64), UUID().uuidString])
    func `8 to 64 characters of the alphabet are a key id`(text: String) throws {
        let id = try #require(KeyID(rawValue: text))
        #expect(try JSONDecoder().decode(KeyID.self, from: JSONEncoder().encode(id)) == id)
    }

    @Test(arguments: [
        "", "1234567", String(repeating: "x", count: 65), "12345678\n", "1234 5678", "12345678é",
        "1234567/",
    ])
    func `anything else is not`(text: String) throws {
        #expect(KeyID(rawValue: text) == nil)
        let json = try JSONEncoder().encode(text)
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(KeyID.self, from: json) }
    }

    @Test func `random ids differ and are valid`() {
        let ids = Set((0..<100).map { _ in KeyID.random() })
        #expect(ids.count == 100)
        #expect(ids.allSatisfy { KeyID(rawValue: $0.rawValue) == $0 })
    }
}
