import ArgumentParser

/// `latchkey demo`.
struct DemoCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Show it all on a private software TPM and a local identity server.",
        discussion: "Changes nothing outside of a temporary directory. Needs the program swtpm.")

    @OptionGroup var options: GlobalOptions

    func perform(in context: CommandContext) async throws -> DemoReport {
        try await Demonstration(narrator: Narrator(console: context.console), log: context.log).run()
    }
}

/// The steps that held, in order. In text it was told as it happened.
struct DemoReport: Report {
    let steps: [String]

    var text: String { "" }
}
