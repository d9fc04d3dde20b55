/// A change of the status, told after it was stored.
public struct AuthSessionChange: Hashable, Sendable {
    /// What led to it.
    public enum Cause: String, Hashable, Sendable {
        case started
        case backgroundAccess
        case locked
        /// Nobody used the session for as long as the configuration allows for.
        case idle
        case destroyed
        case easyAccessEnabled
        case easyAccessDisabled
        case easyAccessChanged
        /// Another program that uses the same store has changed the enrolment.
        case elsewhere
        /// The server or the hardware gave up something that was taken for granted here.
        case revoked
    }

    public let old: AuthSessionStatus
    public let new: AuthSessionStatus
    public let cause: Cause
}
