internal import Foundation  // for canonical composition, which FoundationEssentials lacks

extension String {
    /// Text from another source, safe for one line of output.
    ///
    /// Control characters and line ends, which a terminal or a protocol would interpret, become
    /// U+FFFD. So do format characters (Unicode Standard, sections 23.2 to 23.4), which change the
    /// text's direction, and other invisible characters.
    ///
    /// - Parameter limit: The maximum number of Unicode scalars. A text that was cut ends in `…`.
    package init(oneLine foreign: some StringProtocol, limit: Int = .max) {
        let kept = foreign.unicodeScalars.prefix(limit)
        var line = String.UnicodeScalarView(kept.lazy.map { $0.isVisible ? $0 : "\u{FFFD}" })
        if kept.endIndex != foreign.unicodeScalars.endIndex, !line.isEmpty {
            line.removeLast()
            line.append("…")
        }
        self.init(line)
    }

    /// Text as ``init(oneLine:limit:)`` returns it, but a text that was cut keeps its end and
    /// begins with `…`. For names whose end identifies them, such as domains.
    package init(oneLine foreign: some StringProtocol, endLimit limit: Int) {
        let scalars = String(oneLine: foreign).unicodeScalars
        guard scalars.count > limit else {
            self.init(scalars)
            return
        }
        var end = String.UnicodeScalarView("…".unicodeScalars)
        end.append(contentsOf: scalars.suffix(Swift.max(0, limit - 1)))
        self.init(end)
    }

    /// Text from another source in one line of a log. It writes the characters that
    /// ``init(oneLine:limit:)`` replaces as `\u{…}`, so that the log keeps them.
    ///
    /// - Parameter maximumBytes: The maximum length in bytes of UTF-8 before the `…` of a text that
    ///   was cut.
    package init(escaping foreign: some StringProtocol, maximumBytes: Int) {
        self = ""
        for scalar in foreign.unicodeScalars {
            if scalar.isVisible {
                unicodeScalars.append(scalar)
            } else {
                self += scalar.escaped(asASCII: true)
            }
            guard utf8.count <= maximumBytes else {
                self += "…"
                return
            }
        }
    }

    /// Text as ``init(oneLine:limit:)`` returns it, in quotation marks that nothing in the text can
    /// end: characters that look like one become `'`.
    package init(quoted foreign: some StringProtocol, limit: Int = .max) {
        let marks: Set<Unicode.Scalar> = [
            "\"", "“", "”", "„", "‟", "«", "»", "〝", "〞", "〟", "＂", "❝", "❞", "🙶", "🙷", "🙸", "⹂",
            "″", "‶", "ʺ", "˝", "ˮ", "״", "〃",
        ]
        let line = String(oneLine: foreign, limit: limit).unicodeScalars.map {
            marks.contains($0) ? "'" : $0
        }
        self = "“\(String(String.UnicodeScalarView(line)))”"
    }
}

extension StringProtocol {
    /// Whether the text can be the name of a key, vault, record or container: it is not blank, and
    /// ``Swift/String/init(oneLine:limit:)`` shows it unchanged. A name in prompts and answers to
    /// other programs could otherwise hide or reverse the text around it, or end a line.
    ///
    /// It is in Unicode normalization form C. The store compares names by their bytes, so two
    /// spellings of one text, which look the same, would otherwise be two names.
    ///
    /// - Parameter maximumBytes: The maximum length in bytes of UTF-8.
    package func isName(maximumBytes: Int) -> Bool {
        (1...maximumBytes).contains(utf8.count) && unicodeScalars.allSatisfy(\.isVisible)
            && unicodeScalars.contains { !$0.properties.isWhitespace }
            && (utf8.allSatisfy { $0 < 0x80 }
                || precomposedStringWithCanonicalMapping.utf8.elementsEqual(utf8))
    }
}

extension Unicode.Scalar {
    /// Whether the character only adds visible text to a line: it is neither a control nor a format
    /// character, nor a line end, nor invisible.
    package var isVisible: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: false
        default: !properties.isDefaultIgnorableCodePoint
        }
    }
}
