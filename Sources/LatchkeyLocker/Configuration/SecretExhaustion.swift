/// What becomes of a device when the secret was wrong so often that the hardware takes no more of them.
public enum SecretExhaustion: String, Hashable, Sendable, CaseIterable {
    /// Easy access is given up, and the enrolment stays: the next start takes strong authentication.
    case disableEasyAccess
    /// Nothing: the hardware takes secrets again after a while, or when somebody unlocks it.
    case wait
    /// The enrolment is destroyed, as by ``Locker/endAuthSession(mode:)``.
    case destroyEnrolment
}
