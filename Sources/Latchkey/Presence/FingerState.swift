public import FoundationEssentials

/// Whether a user's finger can be asked for.
public enum FingerState: Hashable, Sendable {
    /// A finger can be asked for now.
    case ready
    /// No service, reader or TPM. The text says which.
    case notAvailable(String)
    /// The user has no finger enrolled.
    case notEnrolled
    /// Too many other fingers were shown; the time says when the next is looked at.
    case lockedOut(until: Date?)
}
