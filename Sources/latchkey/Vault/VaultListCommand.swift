import ArgumentParser
import LatchkeyVault

/// `latchkey vault list`.
struct VaultListCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the container's vaults by name. Needs no hardware and nobody.")

    @OptionGroup var options: GlobalOptions

    func perform(in context: CommandContext) async throws -> VaultListReport {
        let space = try VaultSpace(records: try await context.records(), presence: context.presence)
        return VaultListReport(
            vaults: try space.keys().map { VaultReport(VaultFactory.retrieveVault(key: $0, in: space)) })
    }
}

struct VaultListReport: Report {
    let vaults: [VaultReport]

    var text: String {
        guard !vaults.isEmpty else { return "There are no vaults." }
        return vaults.map { "\(printable($0.name))  \($0.state)" }.joined(separator: "\n")
    }
}
