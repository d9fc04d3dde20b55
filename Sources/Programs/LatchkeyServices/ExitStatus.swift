internal import ArgumentParser
package import Latchkey
internal import LatchkeyPresence

/// The exit status of a program: the same error has the same status in each of them. Scripts and
/// systemd units depend on the numbers, so their meanings do not change.
package enum ExitStatus: Int32, CaseIterable, Sendable {
    case done = 0
    case failed = 1
    case usage = 2
    case cancelled = 3
    case wrongProof = 4
    case lockedOut = 5
    case notFound = 6
    case unavailable = 7
    case damaged = 8
    case refused = 9
    case conflict = 10

    /// The meaning, as the help and the man page latchkey(1) list it.
    package var meaning: String {
        switch self {
        case .done: "done"
        case .failed: "other failure"
        case .usage: "usage"
        case .cancelled: "cancelled or declined"
        case .wrongProof: "wrong PIN or finger"
        case .lockedOut: "locked out"
        case .notFound: "not found or not enabled"
        case .unavailable: "hardware, reader, broker or network unavailable"
        case .damaged: "damaged, wrong device or invalidated"
        case .refused: "refused by the server"
        case .conflict: "conflict, try again"
        }
    }

    /// The status of a program that ends with an error.
    package init(_ error: any Error) {
        switch error {
        case let error as KeystoreError: self.init(error.code)
        case let error as any ReportableError:
            // The facades' errors with this code are refusals of a server.
            self = error.commonCode == .refused ? .refused : ExitStatus(error.commonCode)
        case is BusError: self = .unavailable
        case is CancellationError: self = .cancelled
        case is MistypedCommand: self = .usage
        default: self = Arguments.exitCode(for: error) == .validationFailure ? .usage : .failed
        }
    }

    /// The status of a keystore's error. Its `refused` is the refusal of a rule of this machine.
    package init(_ code: CommonErrorCode) {
        self =
            switch code {
            case .invalidInput: .usage
            case .cancelled: .cancelled
            case .wrongProof: .wrongProof
            case .lockedOut: .lockedOut
            case .notFound, .notEnrolled, .passcodeNotSet: .notFound
            case .unavailable: .unavailable
            case .damaged, .wrongDevice, .invalidated: .damaged
            case .conflict, .transient: .conflict
            case .unsupported, .wrongState, .refused, .failed: .failed
            }
    }

    /// No arguments, to recognize the errors of any program's arguments.
    private struct Arguments: ParsableArguments {}
}
