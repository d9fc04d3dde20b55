internal import Glibc

/// The layout of text on a terminal.
package enum TerminalText {
    /// Wraps text at spaces. Longer words stay whole, so that addresses can be copied.
    ///
    /// - Parameter column: The first column of all lines. The caller has written up to it.
    package static func wrapped(_ text: String, at column: Int, _ width: Int) -> String {
        let margin = "\n" + String(repeating: " ", count: column)
        return text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            let indent = line.prefix { $0 == " " }
            var (lines, current) = ([String](), String(indent))
            for word in line.dropFirst(indent.count).split(separator: " ") {
                if current.count == indent.count {
                    current += word
                } else if column + columns(of: current) + 1 + columns(of: word) > width {
                    lines.append(current)
                    current = "\(indent)\(word)"
                } else {
                    current += " "
                    current += word
                }
            }
            return (lines + [current]).joined(separator: margin)
        }.joined(separator: margin)
    }

    /// The columns that a terminal uses for printable text.
    package static func columns(of text: some StringProtocol) -> Int {
        text.unicodeScalars.reduce(0) { $0 + columns(of: $1) }
    }

    private static func columns(of scalar: Unicode.Scalar) -> Int {
        guard !scalar.isASCII else { return 1 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        default: break
        }
        let isWide = scalar.properties.isEmojiPresentation || wide.contains { $0 ~= scalar.value }
        return isWide ? 2 : 1
    }

    /// The ranges of characters with two columns (Unicode Standard Annex 11).
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2E80...0x303E, 0x3041...0x4DBF, 0x4E00...0xA4CF, 0xAC00...0xD7A3,
        0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x20000...0x3FFFD,
    ]

    /// The columns of a terminal; nil for another file, or if they are unknown.
    package static func width(of descriptor: Int32) -> Int? {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }
}
