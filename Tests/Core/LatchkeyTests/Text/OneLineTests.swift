import Testing

@testable import Latchkey

/// Text from another source, in one line of output.
struct OneLineTests {
    @Test(arguments: [
        "\n", "\r", "\t", "\0", "\u{1B}", "\u{7F}", "\u{85}", "\u{9B}", "\u{2028}", "\u{2029}",
    ])
    func `nothing in it ends the line or moves the cursor`(_ control: String) {
        #expect(String(oneLine: "a\(control)b") == "a\u{FFFD}b")
    }

    @Test(arguments: [
        "\u{202A}", "\u{202B}", "\u{202C}", "\u{202D}", "\u{202E}", "\u{2066}", "\u{2067}",
        "\u{2068}", "\u{2069}",
        "\u{200E}", "\u{200F}", "\u{061C}",
    ])
    func `nothing in it turns the direction of what stands around it`(_ override: String) {
        #expect(String(oneLine: "a\(override)b") == "a\u{FFFD}b")
    }

    @Test(arguments: [
        "\u{200B}", "\u{200C}", "\u{200D}", "\u{2060}", "\u{FEFF}", "\u{AD}", "\u{E0041}",
        "\u{3164}", "\u{FE0F}",
    ])
    func `nothing in it hides`(_ zeroWidth: String) {
        #expect(
            String(oneLine: "a\(zeroWidth)b").unicodeScalars.map(\.value) == [0x61, 0xFFFD, 0x62])
    }

    @Test func `visible text is not changed`() {
        for text in ["", "log in to example.com", "Straße ‘ß’ → 東京 🔑", "مرحبا", "e\u{301}"] {
            #expect(String(oneLine: text) == text)
            #expect(String(oneLine: text, limit: text.unicodeScalars.count) == text)
        }
    }

    @Test func `long text is cut and ends in an ellipsis`() {
        #expect(String(oneLine: "abcdef", limit: 5) == "abcd…")
        #expect(String(oneLine: "\u{202E}bcdef", limit: 5) == "\u{FFFD}bcd…")
        #expect(String(oneLine: "abc", limit: 1) == "…")
        #expect(String(oneLine: "abc", limit: 0).isEmpty)
        let marks = "a" + String(repeating: "\u{301}", count: 10_000)
        #expect(
            String(oneLine: marks, limit: 20).unicodeScalars.count == 20,
            "one character for Swift, not for us")
    }

    @Test func `a long domain keeps its end`() {
        #expect(String(oneLine: "login.bank.example", endLimit: 13) == "…bank.example")
        #expect(String(oneLine: "bank.example", endLimit: 12) == "bank.example")
        #expect(String(oneLine: "a\u{202E}b", endLimit: 2) == "…b")
    }

    @Test func `a name has a limited length and only visible characters`() {
        for name in [
            "a", "Schlüssel für GitHub", "ключ", "鍵", "a b", String(repeating: "x", count: 64),
        ] {
            #expect(name.isName(maximumBytes: 64), "\(name)")
        }
        for text in [
            "", "a\n", "\u{202E}a", "a\u{200B}", "a\u{2028}", String(repeating: "x", count: 65),
            String(repeating: "ü", count: 33), "cafe\u{301}", "\u{212B}",
        ] {
            #expect(!text.isName(maximumBytes: 64), "\(text.debugDescription)")
        }
    }

    @Test func `nothing in a quotation ends it`() {
        #expect(String(quoted: "log in") == "“log in”")
        #expect(
            String(quoted: "a” of root. Its reason: “b\"\n")
                == "“a' of root. Its reason: 'b'\u{FFFD}”")
        #expect(String(quoted: "abcdef", limit: 5) == "“abcd…”")
        #expect(String(quoted: "a″ bˮ c״ d🙷 e⹂") == "“a' b' c' d' e'”")
    }
}
