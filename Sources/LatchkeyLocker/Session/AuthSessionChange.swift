/// A change of the status, told after it was stored.
public struct AuthSessionChange: Hashable, Sendable {
    /// What led to it.
    public enum Cause: String, Hashable, Sendable {
        /// A session was started, or its token renewed.
        case started
        /// Background access was had.
        case backgroundAccess
        /// The session was locked.
        case locked
        /// Nobody used the session for as long as the configuration allows for.
        case idle
        /// The enrolment was destroyed at this device.
        case destroyed
        /// Easy access was enabled.
        case easyAccessEnabled
        /// Easy access was disabled.
        case easyAccessDisabled
        /// Easy access got another PIN or key.
        case easyAccessChanged
        /// Another program that uses the same store has changed the enrolment.
        case elsewhere
        /// The server or the hardware gave up something that was taken for granted here.
        case revoked
    }

    /// The status before.
    public let old: AuthSessionStatus
    /// The status now.
    public let new: AuthSessionStatus
    /// What led to it.
    public let cause: Cause
}
