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

    func perform(in context: CommandContext) async throws -> LockerReport {
        try await LockerSession(in: context, locker).opened { locker in
            // Somebody who only wants to change something does not mean to enrol.
            guard locker.authSessionStatus.phase != .unregistered else {
                throw KeystoreError.notFound(
                    "\(change.rawValue) easy access", "this machine is not enrolled",
                    recovery: "Enrol it with ‘latchkey locker start’.")
            }
            try await locker.startAuthSession()
            let status =
                switch change {
                case .enable: try await locker.enableEasyAccess()
                case .disable: try await locker.disableEasyAccess()
                case .change: try await locker.changeEasyAccess()
                }
            return LockerReport(status)
        }
    }
}
