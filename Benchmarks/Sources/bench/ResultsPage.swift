import Foundation

/// The results as a documentation page with figures.
struct ResultsPage {
    private let findings: Findings

    init(_ findings: Findings) {
        self.findings = findings
    }

    /// Writes `Benchmarks.md` and `figures/….svg` into the folder.
    func write(to folder: String) throws {
        let figures = URL(filePath: folder).appending(path: "figures")
        try FileManager.default.createDirectory(at: figures, withIntermediateDirectories: true)
        for plot in findings.plots {
            try Data(plot.svg.utf8).write(to: figures.appending(path: "\(plot.file).svg"))
        }
        try Data(text.utf8).write(to: URL(filePath: folder).appending(path: "Benchmarks.md"))
    }

    /// Replaces the tables of these findings in `Benchmarks.md`, and appends those that it does not
    /// contain.
    ///
    /// For a run of selected measurements. It leaves the goals and the plots of the other
    /// measurements.
    func update(in folder: String) throws {
        let file = URL(filePath: folder).appending(path: "Benchmarks.md")
        var page = try String(contentsOf: file, encoding: .utf8)
        for section in sections {
            let heading = "\n\(section.prefix { $0 != "\n" })\n"
            let start = page.range(of: heading)
            let end = start.flatMap { page.range(of: "\n#", range: $0.upperBound..<page.endIndex) }
            let old = (start?.lowerBound ?? page.endIndex)..<(end?.lowerBound ?? page.endIndex)
            page.replaceSubrange(old, with: "\n\(section)\n")
        }
        try Data(page.utf8).write(to: file)
    }

    /// The tables without goals, each with its heading.
    private var sections: [String] {
        findings.tables.map { "### \($0.title)\n\n\(Self.table(Table.columns, $0.cells))" }
            + findings.figures.map { figures in
                let table = "### \(figures.title)\n\n\(Self.table(figures.columns, figures.rows))"
                return figures.note.isEmpty ? table : "\(table)\n\n\(figures.note)"
            }
    }

    private var text: String {
        var parts = [
            """
            # Benchmarks

            Written by `scripts/bench --plots`: one run of release builds, compared with the bare hardware. In every table the
            rows are measured in turn, so that load affects all rows equally; compare ratios, not times. Times are medians,
            memory is the peak. 1 MB is 10⁶ bytes.

            \(Self.machine)

            ## Goals
            """,
            Self.table(Goal.columns, findings.goals.map(\.cells)),
        ]
        parts += Attempt.forMissed(findings.goals).map { "**\($0.work).** \($0.text)" }
        parts += [
            """
            R2 and P2 are the commands of a key with two branches, StartAuthSession (salted), Load, PolicyAuthValue, PolicyOR,
            Sign, FlushContext: written by hand in C with their session cryptography on libcrypto (R2), and through ESAPI
            (P2). Latchkey also reads the lockout counter before the prompt, opens a connection, and verifies the signature in
            software before it returns it; the floors do not.

            ## TPM commands per operation

            `CommandBudgetTests` and `FingerPolicyTests` fail if one of these numbers grows; the latter for fingerprints.
            """,
            Self.table(Findings.countColumns, findings.countCells), "## Growth",
        ]
        parts += findings.plots.map { "![\($0.title)](figures/\($0.file).svg)" }
        parts.append("## Comparisons")
        parts += sections
        return parts.joined(separator: "\n\n") + "\n"
    }

    private static func table(_ columns: [String], _ rows: [[String]]) -> String {
        ([columns, columns.map { _ in "---" }] + rows).map { "| \($0.joined(separator: " | ")) |" }
            .joined(separator: "\n")
    }

    /// The date, the processor, the system and the versions of the other programs.
    private static var machine: String {
        let date = Date().formatted(.iso8601.year().month().day())
        let processor = first("model name", of: "/proc/cpuinfo", ":") ?? "an unnamed processor"
        let system = first("PRETTY_NAME", of: "/etc/os-release", "=") ?? "an unnamed system"
        let cores = "\(ProcessInfo.processInfo.activeProcessorCount) × \(processor)"
        let programs = [
            ("swift", "--version"), ("swtpm", "--version"), ("openssl", "version"),
            ("tpm2_sign", "--version"),
        ]
        return ([date, cores, system] + programs.compactMap { version(of: $0, $1) }).joined(
            separator: " · ")
    }

    /// The first line of a program's version output, up to a comma.
    private static func version(of program: String, _ option: String) -> String? {
        guard let printed = try? Program(name: program).run([option]) else { return nil }
        let line = String(decoding: printed, as: UTF8.self).prefix { $0 != "\n" && $0 != "," }
        return String(line)
    }

    private static func first(_ name: String, of file: String, _ separator: Character) -> String? {
        guard let text = try? String(contentsOfFile: file, encoding: .utf8),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix(name) }),
            let value = line.split(separator: separator, maxSplits: 1).last
        else { return nil }
        return value.trimmingCharacters(in: CharacterSet(charactersIn: " \t\""))
    }
}
