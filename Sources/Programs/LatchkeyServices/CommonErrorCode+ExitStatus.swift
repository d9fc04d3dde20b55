package import Latchkey

extension CommonErrorCode {
    /// The exit status of a program that ends with this error. The meanings of the numbers do not
    /// change, because scripts and systemd units depend on them.
    package var exitStatus: Int32 {
        switch self {
        case .invalidInput: 2
        case .cancelled: 3
        case .wrongProof: 4
        case .lockedOut: 5
        case .notFound, .notEnrolled, .passcodeNotSet: 6
        case .unavailable: 7
        case .damaged, .wrongDevice, .invalidated: 8
        case .refused: 9
        case .conflict, .transient: 10
        default: 1
        }
    }
}
