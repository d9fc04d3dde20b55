import LatchkeyServices
import Logging
import Testing

struct JournalEntryTests {
    @Test(arguments: [
        (Logger.Level.trace, 7), (.debug, 7), (.info, 6), (.notice, 5), (.warning, 4), (.error, 3),
        (.critical, 2),
    ])
    func `each level has the priority of syslog`(level: Logger.Level, priority: Int) {
        #expect(JournalEntry(level: level, message: "m", metadata: [:]).line == "<\(priority)>m\n")
    }

    @Test func `metadata appears after the message and in fields`() {
        let entry = JournalEntry(
            level: .notice, message: "a fingerprint verification ended",
            metadata: ["uid": "1000", "outcome": "matched", "hb.request.id": "a b"])
        #expect(
            String(decoding: entry.datagram(identifier: "latchkey-presenced"), as: UTF8.self) == """
                PRIORITY=5
                SYSLOG_IDENTIFIER=latchkey-presenced
                MESSAGE=a fingerprint verification ended hb.request.id=‘a b’ outcome=matched uid=1000
                LATCHKEY_HB_REQUEST_ID=a b
                LATCHKEY_OUTCOME=matched
                LATCHKEY_UID=1000

                """)
        #expect(
            entry.line
                == "<5>a fingerprint verification ended hb.request.id=‘a b’ outcome=matched uid=1000\n"
        )
    }

    @Test(arguments: [
        "\n", "\r\n", "\u{1B}[2J", "\u{0}", "\u{85}", "\u{2028}", "\u{202E}", "\u{200B}",
    ])
    func `outside text starts no line, forges no field and does not control a terminal`(
        hostile: String
    ) {
        let entry = JournalEntry(
            level: .error, message: "failed\(hostile)PRIORITY=0",
            metadata: ["path\(hostile)": "/\(hostile)_UID=0"])
        let lines = String(decoding: entry.datagram(identifier: "t"), as: UTF8.self).unicodeScalars
            .split(separator: "\n", omittingEmptySubsequences: false).map { String($0) }
        #expect(lines.count == 5 && lines[4].isEmpty)
        #expect(lines[0] == "PRIORITY=3")
        #expect(lines[2].hasPrefix("MESSAGE=failed\\") && lines[2].contains("PRIORITY=0"))
        let letters = lines[3].prefix { $0 != "=" }
        #expect(
            letters.hasPrefix("LATCHKEY_PATH_")
                && letters.allSatisfy { $0.isUppercase || $0.isNumber || $0 == "_" })
        for scalar in lines.joined().unicodeScalars {
            #expect(
                ![.control, .format, .lineSeparator, .paragraphSeparator].contains(
                    scalar.properties.generalCategory))
        }
    }

    @Test func `no value ends its quotation marks to forge metadata`() {
        let entry = JournalEntry(
            level: .info, message: "‘m’", metadata: ["name": "a’ uid=‘0", "word": "a’b"])
        #expect(entry.text == #"‘m’ name=‘a\u{2019} uid=\u{2018}0’ word=a\u{2019}b"#)
    }

    @Test func `long values and field names are cut`() {
        let long = String(repeating: "x", count: 100_000)
        let entry = JournalEntry(level: .info, message: "m", metadata: [long: "\(long)"])
        #expect(entry.datagram(identifier: "t").count < 10_000)
        #expect(entry.fields.allSatisfy { $0.name.utf8.count == 64 && $0.value.hasSuffix("x…") })
    }
}
