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

    func perform(in context: CommandContext) async throws -> RevokingReport<LockerReport> {
        let session = try await LockerSession(in: context)
        return try await context.afterRevoking(end(session, context.console), in: session.records)
    }

    private func end(_ session: LockerSession, _ console: Console) async throws -> LockerReport {
        let operation = mode == .destroy ? "destroy the enrolment" : "lock the session"
        do {
            try await session.locker.open()
        } catch {
            guard mode == .destroy, [.storageCorrupted, .wrongDevice].contains(error.code) else { throw error }
            return try await forget(session, error, console)
        }
        guard session.locker.authSessionStatus.phase != .unregistered else {
            throw LockerSession.notEnrolled(operation)
        }
        return LockerReport(try await session.locker.endAuthSession(mode: mode == .destroy ? .destroy : .lock))
    }

    /// What can't be opened can still be deleted.
    private func forget(
        _ session: LockerSession, _ error: ErsteGroupAuthError, _ console: Console
    ) async throws -> LockerReport {
        let isTold = try await Locker.forget(in: session.records)
        // Sends the device's last word.
        try await session.locker.open()
        console.warn("The enrolment could not be opened, since \(error.reason); everything of it is deleted here.")
        if !isTold {
            console.warn("The server can't be told, since the device's key is gone. Remove this machine at the server.")
        }
        return LockerReport(session.locker.authSessionStatus)
    }
}

/// How to end, as `--mode` names it.
enum EndModeArgument: String, ExpressibleByArgument, CaseIterable {
    case lock
    case destroy
}
