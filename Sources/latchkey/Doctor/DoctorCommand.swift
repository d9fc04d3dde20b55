import ArgumentParser

/// `latchkey doctor`.
struct DoctorCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "See whether keys can be made here, and what to do if not.",
        discussion: "Ends with 0 only if a key can be made now. Changes nothing and asks nobody.")

    @OptionGroup var options: GlobalOptions

    func run() async throws {
        let context = try await CommandContext(options)
        let report = try await perform(in: context)
        try context.console.show(report)
        if let status = report.failure { throw ReportedFailure(status: status) }
    }

    func perform(in context: CommandContext) async throws -> DoctorReport {
        DoctorReport(checks: await Examination(context: context).checks())
    }
}
