import ArgumentParser
import Latchkey
import LatchkeyLocker

/// `latchkey key list`.
struct KeyListCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the container's keys, oldest first. Needs no hardware.")

    @OptionGroup var options: GlobalOptions

    @Flag(help: "List also those that biometric login and the locker use.")
    var all = false

    func perform(in context: CommandContext) async throws -> KeyListReport {
        let records = try await context.records()
        let lockers = try await StoredEnrolment.keys(in: records)
        let reports = try await records.keys().compactMap { record in
            record.key.map { key in
                KeyReport(key, usedBy: lockers.contains(key.id) ? "locker" : record.kind == .key ? nil : "login")
            }
        }
        let shown = reports.filter { all || $0.usedBy == nil }
        return KeyListReport(keys: shown, hidden: reports.count - shown.count)
    }
}

struct KeyListReport: Report {
    let keys: [KeyReport]
    /// How many there are that other parts use and were not asked for.
    let hidden: Int

    private enum CodingKeys: CodingKey {
        case keys
    }

    var text: String {
        guard !keys.isEmpty else {
            return hidden == 0 ? "There are no keys." : "There are no keys of your own; --all lists those in use."
        }
        return keys.map { key in
            let use = key.usedBy.map { " (used by \($0))" } ?? ""
            let copies = key.isRevocable ? " (revocable)" : ""
            return "\(key.id)  \(key.policy)  \(key.assurance)  \(printable(key.label.value ?? ""))\(copies)\(use)"
        }.joined(separator: "\n")
    }
}
