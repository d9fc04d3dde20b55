import ArgumentParser
import Latchkey
import LatchkeyLocker

/// `latchkey locker easy-access`.
struct LockerEasyAccessCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "easy-access",
        abstract: "Enable, disable or change the PIN or finger with which a session starts.")

    enum Change: String, ExpressibleByArgument, CaseIterable {
        case enable
        case disable
        case change
    }

    @OptionGroup var options: GlobalOptions

    @OptionGroup var locker: LockerOptions

    @Argument(help: "enable, disable or change.")
    var change: Change

    func perform(in context: CommandContext) async throws -> RevokingReport<LockerReport> {
        let operation = "\(change.rawValue) easy access"
        // Without the server nothing of this goes.
        let session = try await LockerSession(in: context, locker, allowsOffline: false)
        // Somebody who only wants to change something does not mean to enrol.
        try await session.enrolment(operation)
        let report = try await session.opened(for: .active) { locker in
            // Nobody is asked in vain.
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
            reason: isEnabled ? "it is enabled already" : "it is not enabled",
            recovery: "Run ‘latchkey locker easy-access \(isEnabled ? "change" : "enable")’.")
    }
}
