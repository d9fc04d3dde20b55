public import FoundationEssentials

/// Whether somebody can be recognised on this machine now, and if not, why: what `LAContext` says on iOS.
public enum BiometricAvailability: Hashable, Sendable {
    /// It can be enabled now.
    case available
    /// There is no hardware for it: no TPM or token, no reader, no presence broker. The text says which.
    case notAvailable(String)
    /// The reader is there; the user has no finger enrolled.
    case notEnrolled
    /// Too many wrong proofs; the time says when the next is taken, where that is known.
    case lockedOut(until: Date?)
    /// The policy is a PIN on a token, and none is set.
    case passcodeNotSet
}
