import ArgumentParser
import LatchkeyLocker

/// `latchkey locker start`.
struct LockerStartCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "start",
        abstract: "Start a session, to see that you can; enrol this machine where it isn't.")

    @OptionGroup var options: GlobalOptions

    @OptionGroup var locker: LockerOptions

    @Option(help: "How to show who you are: any, easy or strong.")
    var level = RequiredLevelArgument.any

    func perform(in context: CommandContext) async throws -> LockerReport {
        let session = try await LockerSession(in: context, locker, allowsOffline: locker.allowOffline)
        if try await session.storedEnrolment("start the session") == nil {
            guard level != .easy else { throw LockerSession.notEnrolled("start the session") }
            try await session.checkPresence()
        }
        let report = try await session.opened { locker in
            LockerReport(
                try await locker.startAuthSession(options: .init(requiredLevel: level.level)),
                isRevocable: try await locker.isStoredRevocably())
        }
        if try await session.storedEnrolment("start the session")?.hasLevelShares == false {
            context.console.say(
                "The server keeps no shares of keys: no cryptography ties data of ‘active’ and ‘background’ to sessions."
            )
        }
        return report
    }
}

/// A required level as `--level` names it.
enum RequiredLevelArgument: String, ExpressibleByArgument, CaseIterable {
    case any
    case easy
    case strong

    var level: RequiredLevel {
        switch self {
        case .any: .any
        case .easy: .easyAccess
        case .strong: .strong
        }
    }
}
