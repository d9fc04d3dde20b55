import FoundationEssentials
import Latchkey
import LatchkeyPlatform

/// The text of a result, in two forms: for scripts, and arranged for a terminal with its columns and
/// local times. The form for scripts does not depend on the terminal.
struct Layout: Sendable {
    /// A part of a text: a value, a time, or a state with a colour.
    struct Cell: Sendable, ExpressibleByStringInterpolation {
        let script: String
        let text: String
        let tone: Style.Tone?

        init(script: String, _ text: String, _ tone: Style.Tone? = nil) {
            self.script = printableLines(script)
            self.text = printableLines(text)
            self.tone = tone
        }

        init(_ text: String, _ tone: Style.Tone? = nil) { self.init(script: text, text, tone) }

        init(stringLiteral text: String) { self.init(text) }

        /// Cells below each other.
        static func lines(_ cells: [Cell]) -> Cell {
            Cell(
                script: cells.map(\.script).joined(separator: "\n"),
                cells.map(\.text).joined(separator: "\n"))
        }

        /// A point in time: for scripts in UTC, on a terminal in local time.
        ///
        /// - Parameter words: The text around the time.
        init(_ date: Date, _ words: (String) -> String = { $0 }) {
            self.init(script: words(date.formatted(.iso8601)), words(LocalTime.text(date)))
        }
    }

    /// A row of a table: a line for scripts, and the cells below the headings of a terminal.
    struct Row: Sendable {
        let script: String
        let cells: [Cell]
    }

    private enum Part {
        /// Lines of text.
        case text(String)
        /// Lines that are never wrapped, such as PEM.
        case verbatim(String)
        /// Names with values; the column of the values.
        case fields(Int, [(name: String, value: Cell)])
        case table([String], [Row])
        /// Words in columns, with text after them. Its further lines begin below the first one.
        case entry([(word: Cell, width: Int)], Cell)
    }

    private let parts: [Part]

    private init(_ part: Part) { parts = [part] }
    private init(_ parts: [Part]) { self.parts = parts }

    /// Lines of text.
    init(_ text: String) { self.init(text.isEmpty ? [] : [.text(text)]) }

    static func verbatim(_ text: String) -> Layout { Layout(.verbatim(text)) }

    /// - Parameter column: The first column of the values. If a longer name does not fit, all values
    ///   begin later.
    static func fields(_ column: Int, _ fields: [(String, Cell?)]) -> Layout {
        let given = fields.compactMap { name, value in value.map { (name: name, value: $0) } }
        let column = given.reduce(column) { max($0, $1.name.count + 2) }
        return Layout(.fields(column, given))
    }

    static func table(_ headings: [String], _ rows: [Row]) -> Layout {
        Layout(.table(headings, rows))
    }

    static func entry(_ lead: [(Cell, Int)], _ text: Cell) -> Layout {
        Layout(.entry(lead.map { (word: $0.0, width: $0.1) }, text))
    }

    /// The layouts below each other.
    static func joined(_ layouts: [Layout]) -> Layout { Layout(layouts.flatMap(\.parts)) }

    /// This layout, and another one below it.
    func then(_ next: Layout) -> Layout { .joined([self, next]) }

    /// The layouts below each other, with an empty line between two.
    static func stack(_ layouts: [Layout]) -> Layout {
        Layout(Array(layouts.map(\.parts).joined(separator: [Part.verbatim("")])))
    }

    var isEmpty: Bool { parts.isEmpty }

    // MARK: For scripts

    /// The text for scripts.
    var script: String { parts.map(Self.script).joined(separator: "\n") }

    private static func script(_ part: Part) -> String {
        switch part {
        case .text(let text), .verbatim(let text): text
        case .fields(let column, let fields):
            fields.map { name, value in
                padded("\(name):", to: column) + hung(value.script, below: column)
            }.joined(separator: "\n")
        case .table(_, let rows): rows.map(\.script).joined(separator: "\n")
        case .entry(let lead, let text):
            lead.map { padded($0.word.script, to: $0.width) }.joined()
                + hung(text.script, below: lead.reduce(0) { $0 + $1.width })
        }
    }

    /// Moves all lines but the first to a column.
    private static func hung(_ text: String, below column: Int) -> String {
        text.replacing("\n", with: "\n" + String(repeating: " ", count: column))
    }

    // MARK: For a terminal

    /// The text for a terminal.
    ///
    /// - Parameter width: Its columns; nil if they are unknown, so that nothing is wrapped.
    func arranged(width: Int?, _ style: Style) -> String {
        parts.map { Self.arranged($0, width ?? .max, style) }.joined(separator: "\n")
    }

    private static func arranged(_ part: Part, _ width: Int, _ style: Style) -> String {
        switch part {
        case .text(let text): TerminalText.wrapped(text, at: 0, width)
        case .verbatim(let text): text
        case .fields(let column, let fields):
            fields.map { name, value in
                item(padded("\(name):", to: column), column, value, width, style)
            }.joined(separator: "\n")
        case .entry(let lead, let text):
            item(
                lead.map { coloured($0.word, style) + gap(after: $0.word.text, to: $0.width) }
                    .joined(),
                lead.reduce(0) { $0 + $1.width }, text, width, style)
        case .table(let headings, let rows): table(headings, rows, width, style)
        }
    }

    /// The least space for wrapped text next to other columns.
    private static let leastSpace = 24

    /// A value after its lead, or below it in a narrow terminal.
    private static func item(
        _ lead: String, _ column: Int, _ value: Cell, _ width: Int, _ style: Style
    ) -> String {
        guard width < column + leastSpace else {
            return lead + coloured(value, style, at: column, width)
        }
        return lead + "\n  " + coloured(value, style, at: 2, width)
    }

    private static func table(
        _ headings: [String], _ rows: [Row], _ width: Int, _ style: Style
    ) -> String {
        let used = headings.indices.filter { column in
            rows.contains { !$0.cells[column].text.isEmpty }
        }
        let widths = used.map { column in
            rows.reduce(TerminalText.columns(of: headings[column])) {
                max($0, TerminalText.columns(of: $1.cells[column].text))
            }
        }
        let start = widths.dropLast().reduce(0) { $0 + $1 + 2 }
        guard width >= start + min(widths.last ?? 0, leastSpace) else {
            let column = (used.map { headings[$0].count }.max() ?? 0) + 2
            return rows.map { row in
                used.map {
                    item(padded(headings[$0], to: column), column, row.cells[$0], width, style)
                }.joined(separator: "\n")
            }.joined(separator: "\n\n")
        }
        let lines = [headings.map { Cell($0) }] + rows.map(\.cells)
        return lines.map { cells in
            zip(used, widths).enumerated().map { place, column in
                let cell = cells[column.0]
                return place == used.count - 1
                    ? coloured(cell, style, at: start, width)
                    : coloured(cell, style) + gap(after: cell.text, to: column.1 + 2)
            }.joined()
        }.joined(separator: "\n")
    }

    private static func coloured(
        _ cell: Cell, _ style: Style, at column: Int = 0, _ width: Int = .max
    ) -> String {
        let text = TerminalText.wrapped(cell.text, at: column, width)
        return cell.tone.map { style(text, $0) } ?? text
    }

    private static func padded(_ text: String, to width: Int) -> String {
        text + gap(after: text, to: width)
    }

    private static func gap(after text: String, to width: Int) -> String {
        String(repeating: " ", count: max(0, width - TerminalText.columns(of: text)))
    }
}
