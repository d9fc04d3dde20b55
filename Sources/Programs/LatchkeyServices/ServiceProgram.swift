package import ArgumentParser
internal import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import LatchkeyPresence
package import Logging
internal import UnixSignals

/// A program that serves until a signal ends it. It then ends with 0, otherwise with the
/// ``ExitStatus`` of its error. The log goes to the journal under systemd, otherwise to standard
/// error.
package protocol ServiceProgram: AsyncParsableCommand {
    /// Whether to log each request.
    var isVerbose: Bool { get }

    /// Serves until the task is cancelled.
    func serve(environment: [String: String], log: Logger) async throws
}

extension ServiceProgram {
    /// Parses the arguments, serves, and ends the process. Each program calls it in its own `main`:
    /// an extension's `main` would not replace that of ArgumentParser.
    package static func runToEnd() async -> Never {
        ProgramShell.start()
        umask(0o077)
        let environment = ProcessInfo.processInfo.environment
        LoggingSystem.bootstrap { ServiceLog.handler(label: $0, environment: environment) }
        let log = Logger(label: _commandName)
        // Before the service has a socket: a signal that is not trapped ends the process at once,
        // so the socket stays and tokens are not locked.
        var trapped: [UnixSignal] = [.sigterm, .sigint, .sigquit]
        // Under nohup, the end of the terminal does not end the service.
        if !SignalCatcher.isIgnored(SIGHUP) { trapped.append(.sighup) }
        let signals = await UnixSignalsSequence(trapping: trapped)
        let work = Task { await status(environment: environment, log: log) }
        Task {
            for await _ in signals {
                work.cancel()
                // The service closes its prompt and releases the hardware.
                try? await Task.sleep(for: .seconds(10))
                ProgramShell.end(.done)
            }
        }
        ProgramShell.end(await work.value)
    }

    private static func status(environment: [String: String], log: Logger) async -> ExitStatus {
        do {
            try ProgramTexts.check()
            let program = try parse()
            var log = log
            log.logLevel = program.isVerbose ? .debug : .info
            try await program.serve(environment: environment, log: log)
            return .done
        } catch _ where Task.isCancelled {
            return .done
        } catch let error where exitCode(for: error) == .success {
            print(fullMessage(for: error))
            return .done
        } catch {
            let failure = ProgramFailure(error, of: self)
            report(failure, in: log)
            return failure.status
        }
    }

    /// Reports the error that ends the service: in the journal, otherwise and for wrong arguments as
    /// text for the user.
    private static func report(_ failure: ProgramFailure, in log: Logger) {
        let sentence = "\(failure.message) \(failure.recovery)"
        let environment = ProcessInfo.processInfo.environment
        guard
            failure.usage != nil || !ServiceLog.isJournal(STDERR_FILENO, environment: environment)
        else {
            log.critical("\(sentence)")
            return
        }
        let lines = failure.usage ?? "\(_commandName): \(sentence)"
        let text =
            lines.split(separator: "\n", omittingEmptySubsequences: false)
            .map { String(escaping: String($0), maximumBytes: 4096) }.joined(separator: "\n") + "\n"
        _ = write(STDERR_FILENO, text, text.utf8.count)
    }

    /// Waits until a signal ends the service.
    package func waitForEnd() async {
        let (never, continuation) = AsyncStream.makeStream(of: Void.self)
        for await _ in never {}
        continuation.finish()
    }
}
