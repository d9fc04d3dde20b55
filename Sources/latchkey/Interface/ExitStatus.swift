import Latchkey

/// What the process ends with. The numbers are a contract with scripts: none changes its meaning.
enum ExitStatus: Int32, Sendable {
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

    /// The one place where an error becomes a number.
    init(_ code: KeystoreError.Code) {
        self =
            switch code {
            case .invalidInput: .usage
            case .cancelled: .cancelled
            case .wrongProof: .wrongProof
            case .lockedOut: .lockedOut
            case .notFound, .notEnrolled, .passcodeNotSet: .notFound
            case .unavailable: .unavailable
            case .damaged, .wrongDevice, .invalidated: .damaged
            case .refused: .refused
            case .conflict, .transient: .conflict
            default: .failed
            }
    }
}
