import ArgumentParser
import LatchkeyLogging
import Logging

/// A command that works in a ``CommandContext`` and answers with a ``Report``. The demo runs the same commands in a
/// context of its own.
protocol ContextCommand: AsyncParsableCommand {
    associatedtype Output: Report

    var options: GlobalOptions { get }

    func perform(in context: CommandContext) async throws -> Output
}

extension ContextCommand {
    func run() async throws {
        if options.verbose { LoggingSystem.bootstrap { TextLogHandler(label: $0) } }
        let context = try await CommandContext(options)
        try context.console.show(try await perform(in: context))
    }
}
