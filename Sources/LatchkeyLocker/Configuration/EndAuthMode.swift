/// How a session is to end.
public enum EndAuthMode: String, Hashable, Sendable, CaseIterable {
    /// The session ends; the device stays enrolled.
    case lock
    /// The enrolment ends, here and at the server. What was encrypted can't be decrypted any more.
    case destroy
}
