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
        return KeyListReport(keys: reports.filter { all || $0.usedBy == nil })
    }
}

struct KeyListReport: Report {
    let keys: [KeyReport]

    var text: String {
        guard !keys.isEmpty else { return "There are no keys." }
        return keys.map { key in
            let use = key.usedBy.map { " (used by \($0))" } ?? ""
            let copies = key.isRevocable ? " (revocable)" : ""
            return "\(key.id)  \(key.policy)  \(key.assurance)  \(printable(key.label.value ?? ""))\(copies)\(use)"
        }.joined(separator: "\n")
    }
}
