internal import Latchkey
package import Logging

/// One entry of the journal: a text for people in one line, and fields with the same values for
/// `journalctl` to search.
package struct JournalEntry: Equatable, Sendable {
    package struct Field: Equatable, Sendable {
        package let name: String
        package let value: String
    }

    /// The maximum length of a message or value in bytes of UTF-8. An outside source can control
    /// one.
    static let longestValue = 4096
    /// The maximum length of a field's name in bytes (systemd's `journal-file.c` refuses longer
    /// ones).
    static let longestName = 64

    /// 0 (emergency) to 7 (debug), as in syslog (RFC 5424, section 6.2.1).
    package let priority: Int
    package let fields: [Field]
    /// The message, followed by each field as `name=value`.
    package let text: String

    package init(level: Logger.Level, message: String, metadata: Logger.Metadata) {
        priority = Self.priority(of: level)
        let pairs = metadata.sorted { $0.key < $1.key }.map {
            (name: $0.key, value: Self.line("\($0.value)"))
        }
        fields = pairs.map { Field(name: Self.fieldName($0.name), value: $0.value) }
        let words = pairs.map { "\($0.name)=\(Self.quoted($0.value))" }
        text = Self.line(([message] + words).joined(separator: " "))
    }

    /// The datagram for the journal: one line for each field. No value contains a line break, so
    /// none can add a field.
    package func datagram(identifier: String) -> [UInt8] {
        let lines =
            ["PRIORITY=\(priority)", "SYSLOG_IDENTIFIER=\(identifier)", "MESSAGE=\(text)"]
            + fields.map { "\($0.name)=\($0.value)" }
        return Array(lines.map { "\($0)\n" }.joined().utf8)
    }

    /// The line for standard error, preceded by its priority (sd-daemon(3)).
    package var line: String { "<\(priority)>\(text)\n" }

    private static func priority(of level: Logger.Level) -> Int {
        switch level {
        case .critical: 2
        case .error: 3
        case .warning: 4
        case .notice: 5
        case .info: 6
        case .debug, .trace: 7
        }
    }

    /// Converts a key to a field's name: capitals, digits and underscores, and a prefix, because
    /// the journal reserves names that begin with an underscore.
    private static func fieldName(_ key: String) -> String {
        let letters = key.uppercased().unicodeScalars.map { scalar in
            ("A"..."Z").contains(scalar) || ("0"..."9").contains(scalar) ? Character(scalar) : "_"
        }
        return String("LATCHKEY_\(String(letters))".prefix(longestName))
    }

    /// The value, in quotation marks if it contains spaces. Its own marks are escaped, so none can
    /// end it and add a field.
    private static func quoted(_ value: String) -> String {
        let marks: Set<Unicode.Scalar> = ["‘", "’"]
        let text = value.unicodeScalars.map {
            marks.contains($0) ? $0.escaped(asASCII: true) : String($0)
        }.joined()
        return value.contains(where: \.isWhitespace) ? "‘\(text)’" : text
    }

    private static func line(_ text: String) -> String {
        String(escaping: text, maximumBytes: longestValue)
    }
}
