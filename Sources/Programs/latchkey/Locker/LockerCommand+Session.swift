public import ArgumentParser
import Latchkey
public import LatchkeyLocker
import LatchkeyServices

extension LockerCommand {
    /// `latchkey locker start`.
    struct Start: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "start",
            abstract: "Check that a session starts; enrol this machine if it is not enrolled.")

        static let createsStore = true

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @OptionGroup var locker: LockerArguments

        @Option(help: "The required authentication.") var level = RequiredLevelArgument.any

        var operation: String? { "start the session" }

        func perform(in context: CommandContext) async throws -> LockerReport {
            let session = try await LockerSession(
                in: context, locker, allowsOffline: locker.allowOffline)
            if try await session.storedEnrolment() == nil {
                guard level != .easy else { throw LockerSession.notEnrolled }
                try await session.checkPresence()
            }
            let report = try await session.opened { locker in
                LockerReport(
                    try await locker.startAuthSession(options: .init(requiredLevel: level.level)),
                    isRevocable: try await locker.isStoredRevocably())
            }
            if try await session.storedEnrolment()?.hasLevelShares == false {
                context.console.say(
                    "The server stores no key shares: cryptography does not bind data of ‘active’ and ‘background’ to sessions."
                )
            }
            return report
        }
    }

    /// `latchkey locker background`.
    struct Background: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "background",
            abstract: "Check that background access works. Does not prompt.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        var operation: String? { "get background access" }

        func perform(in context: CommandContext) async throws -> LockerReport {
            let session = try await LockerSession(in: context)
            try await session.enrolment()
            return try await session.opened(for: .background) {
                LockerReport(try await $0.backgroundAccess())
            }
        }
    }

    /// `latchkey locker easy-access`.
    struct EasyAccess: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "easy-access",
            abstract: "Enable, disable or change the PIN or fingerprint that starts a session.")

        enum Change: String, ExpressibleByArgument, CaseIterable {
            case enable
            case disable
            case change
        }

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @OptionGroup var locker: LockerArguments

        @Argument(help: "The operation.") var change: Change

        var operation: String? { "\(change.rawValue) easy access" }

        func perform(in context: CommandContext) async throws -> RevokingReport<LockerReport> {
            // Changing easy access requires the server.
            let session = try await LockerSession(in: context, locker, allowsOffline: false)
            // This command does not enrol the machine.
            try await session.enrolment()
            let report = try await session.opened(for: .active) { locker in
                // Before the prompt.
                try checkApplies(isEnabled: locker.authSessionStatus.isEasyAccessEnabled)
                if change != .disable { try await session.checkPresence() }
                try await locker.startAuthSession()
                let status =
                    switch change {
                    case .enable: try await locker.enableEasyAccess()
                    case .disable: try await locker.disableEasyAccess()
                    case .change: try await locker.changeEasyAccess()
                    }
                return LockerReport(
                    status, hasNewSecret: change == .change,
                    isRevocable: try await locker.isStoredRevocably())
            }
            return await context.afterRevoking(report, in: session.records)
        }

        private func checkApplies(isEnabled: Bool) throws(ErsteGroupAuthError) {
            guard isEnabled == (change == .enable) else { return }
            throw ErsteGroupAuthError(
                code: isEnabled ? .easyAccessEnabled : .easyAccessDisabled,
                reason: isEnabled ? "easy access is already enabled" : "easy access is not enabled",
                recovery: "Run ‘latchkey locker easy-access \(isEnabled ? "change" : "enable")’.")
        }
    }

    /// `latchkey locker end`.
    struct End: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "end",
            abstract: "Lock the session, or destroy the enrolment and all encrypted data.",
            discussion: """
                Before it destroys, asks for confirmation at a terminal; without a terminal, requires --yes.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Option(
            help:
                "Destroyed data cannot be recovered. The session is always locked between commands."
        )
        var mode: EndAuthMode

        @Flag(help: Confirmation.help) var yes = false

        var operation: String? { mode == .destroy ? "destroy the enrolment" : "lock the session" }

        func perform(in context: CommandContext) async throws -> RevokingReport<LockerReport> {
            let session = try await LockerSession(in: context)
            if mode == .destroy {
                try await Confirmation.check(
                    "All data of the locker on this machine will become unreadable. There is no copy of its keys.",
                    isGiven: yes)
            }
            return try await context.afterRevoking(
                end(session, context.console), in: session.records)
        }

        private func end(_ session: LockerSession, _ console: Console) async throws -> LockerReport
        {
            do {
                try await session.locker.open()
            } catch {
                guard mode == .destroy, [.storageCorrupted, .wrongDevice].contains(error.code)
                else { throw error }
                return try await forget(session, after: error, console: console)
            }
            guard session.locker.authSessionStatus.phase != .unregistered else {
                throw LockerSession.notEnrolled
            }
            return LockerReport(
                try await session.locker.endAuthSession(mode: mode), isDestroyed: mode == .destroy)
        }

        /// Deletes an enrolment that cannot be opened.
        private func forget(
            _ session: LockerSession, after error: ErsteGroupAuthError, console: Console
        ) async throws -> LockerReport {
            let isTold = try await Locker.forget(in: session.records)
            // Sends the removal of the device to the server.
            try await session.locker.open()
            console.warn(
                "The enrolment could not be opened, because \(error.reason). All of its data on this machine is deleted."
            )
            if !isTold {
                console.warn(
                    "The server still lists this machine, because the device's key is lost. Remove this machine at the server."
                )
            }
            return LockerReport(session.locker.authSessionStatus, isDestroyed: true)
        }
    }
}

/// The value of `--level`: the required authentication.
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

/// The value of `--mode`.
extension EndAuthMode: ExpressibleByArgument {
    public init?(argument: String) {
        guard let mode = Self.allCases.first(where: { "\($0)" == argument }) else { return nil }
        self = mode
    }

    public static var allValueStrings: [String] { allCases.map { "\($0)" } }
}
