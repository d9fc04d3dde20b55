extension String {
    /// Text that somebody else wrote, fit to stand in a line of ours.
    ///
    /// Control characters and ends of lines, which a terminal or a protocol would obey, become U+FFFD, as do format
    /// characters (Unicode Standard, sections 23.2 to 23.4) and others that are not to be seen: they turn the direction
    /// of the text around them, or hide.
    ///
    /// - Parameter limit: At most so many Unicode scalars are left, the last of them `…` where something is missing.
    package init(oneLine foreign: some StringProtocol, limit: Int = .max) {
        let kept = foreign.unicodeScalars.prefix(limit)
        var line = String.UnicodeScalarView(kept.lazy.map { $0.isVisible ? $0 : "\u{FFFD}" })
        if kept.endIndex != foreign.unicodeScalars.endIndex, !line.isEmpty {
            line.removeLast()
            line.append("…")
        }
        self.init(line)
    }

    /// Foreign text in one line of a log. The same characters as in ``init(oneLine:limit:)`` are written out as `\u{…}`, so
    /// that the log keeps them.
    ///
    /// - Parameter maximumBytes: The most bytes of UTF-8 before the `…` of a text that is cut.
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

    /// The same between quotation marks, which nothing in it can end.
    package init(quoted foreign: some StringProtocol, limit: Int = .max) {
        let marks: Set<Unicode.Scalar> = ["\"", "“", "”", "„", "‟", "«", "»", "〝", "〞", "〟", "＂", "❝", "❞"]
        let line = String(oneLine: foreign, limit: limit).unicodeScalars.map { marks.contains($0) ? "'" : $0 }
        self = "“\(String(String.UnicodeScalarView(line)))”"
    }
}

extension Unicode.Scalar {
    /// Whether it does no more to a line than stand in it: neither a control nor a format character, nor the end of a line,
    /// nor anything else that is not to be seen.
    package var isVisible: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: false
        default: !properties.isDefaultIgnorableCodePoint
        }
    }
}
