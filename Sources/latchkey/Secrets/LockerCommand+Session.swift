public import ArgumentParser
import Latchkey
public import LatchkeyLocker

extension LockerCommand {
    /// `latchkey locker start`.
    struct Start: ContextCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check that a session starts; enrol this machine if it is not enrolled.")

        @OptionGroup var arguments: LockerArguments

        @Option(help: "The required authentication.") var level = RequiredLevelArgument.any

        func perform(in context: CommandContext) async throws -> LockerReport {
            let session = try await LockerSession(in: context, arguments, allowsOffline: arguments.allowOffline)
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
                    "The server stores no key shares: cryptography does not bind data of ‘active’ and ‘background’ to sessions."
                )
            }
            return report
        }
    }

    /// `latchkey locker background`.
    struct Background: ContextCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check that background access works. Does not prompt.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        func perform(in context: CommandContext) async throws -> LockerReport {
            let session = try await LockerSession(in: context)
            try await session.enrolment("get background access")
            return try await session.opened(for: .background) { LockerReport(try await $0.backgroundAccess()) }
        }
    }

    /// `latchkey locker easy-access`.
    struct EasyAccess: ContextCommand {
        static let configuration = CommandConfiguration(
            abstract: "Enable, disable or change the PIN or fingerprint that starts a session.")

        enum Change: String, ExpressibleByArgument, CaseIterable {
            case enable
            case disable
            case change
        }

        @OptionGroup var arguments: LockerArguments

        @Argument(help: "The operation.") var change: Change

        func perform(in context: CommandContext) async throws -> RevokingReport<LockerReport> {
            let operation = "\(change.rawValue) easy access"
            // Changing easy access requires the server.
            let session = try await LockerSession(in: context, arguments, allowsOffline: false)
            // This command does not enrol the machine.
            try await session.enrolment(operation)
            let report = try await session.opened(for: .active) { locker in
                // Before the prompt.
                try checkApplies(operation, isEnabled: locker.authSessionStatus.isEasyAccessEnabled)
                if change != .disable { try await session.checkPresence() }
                try await locker.startAuthSession()
                let status =
                    switch change {
                    case .enable: try await locker.enableEasyAccess()
                    case .disable: try await locker.disableEasyAccess()
                    case .change: try await locker.changeEasyAccess()
                    }
                return LockerReport(
                    status, hasNewSecret: change == .change, isRevocable: try await locker.isStoredRevocably())
            }
            return await context.afterRevoking(report, in: session.records)
        }

        private func checkApplies(_ operation: String, isEnabled: Bool) throws(ErsteGroupAuthError) {
            guard isEnabled == (change == .enable) else { return }
            throw ErsteGroupAuthError(
                operation: operation, code: isEnabled ? .easyAccessEnabled : .easyAccessDisabled,
                reason: isEnabled ? "easy access is already enabled" : "easy access is not enabled",
                recovery: "Run ‘latchkey locker easy-access \(isEnabled ? "change" : "enable")’.")
        }
    }

    /// `latchkey locker end`.
    struct End: ContextCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lock the session, or destroy the enrolment and all encrypted data.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Option(help: "Destroyed data cannot be recovered. The session is always locked between commands.")
        var mode: EndAuthMode

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
            return LockerReport(try await session.locker.endAuthSession(mode: mode))
        }

        /// Deletes an enrolment that cannot be opened.
        private func forget(
            _ session: LockerSession, _ error: ErsteGroupAuthError, _ console: Console
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
            return LockerReport(session.locker.authSessionStatus)
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

extension EndAuthMode: ExpressibleByArgument {}
