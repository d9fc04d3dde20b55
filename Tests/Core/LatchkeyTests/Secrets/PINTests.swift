import Latchkey
import Testing

struct PINTests {
    @Test(arguments: ["1234", "éèüß", "ๅ๒๓๔", "🔑🔒🔓🗝️", "पिनकोड", String(repeating: "9", count: 256)])
    func `four characters of any script are a PIN`(text: String) throws {
        _ = try PIN(text)
    }

    @Test(arguments: ["", "123", "👨‍👩‍👧‍👦🔑🔒", "12\n34", "1234\u{0}", String(repeating: "9", count: 257)])
    func `too short, too long and control characters are refused`(text: String) {
        #expect { try PIN(text) } throws: { ($0 as? KeystoreError)?.code == .invalidInput }
    }

    @Test func `composed and decomposed spellings are one PIN`() throws {
        #expect(try PIN("caf\u{E9}") == PIN("cafe\u{301}"))
        #expect(try PIN("1234") != PIN("1235"))
    }

    @Test func `a PIN does not print its characters`() throws {
        let pin = try PIN("493817")
        var dumped = ""
        dump(pin, to: &dumped)
        for text in ["\(pin)", String(reflecting: pin), dumped, "\([pin])"] {
            #expect(!text.contains("4938"))
        }
    }
}
