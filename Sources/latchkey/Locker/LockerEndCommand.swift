import ArgumentParser
import LatchkeyLocker

/// `latchkey locker end`.
struct LockerEndCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "end",
        abstract: "Lock the session, as it always is between commands; or destroy the enrolment and all encrypted data."
    )

    @OptionGroup var options: GlobalOptions

    @Option(help: "lock or destroy; what is destroyed can't be had back.")
    var mode: EndModeArgument

    func perform(in context: CommandContext) async throws -> LockerReport {
        let locker = try await LockerSession(in: context).locker
        try await locker.open()
        return LockerReport(try await locker.endAuthSession(mode: mode == .destroy ? .destroy : .lock))
    }
}

/// How to end, as `--mode` names it.
enum EndModeArgument: String, ExpressibleByArgument, CaseIterable {
    case lock
    case destroy
}
