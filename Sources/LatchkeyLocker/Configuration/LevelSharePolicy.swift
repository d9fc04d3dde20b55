/// What to do with a server that keeps no shares of the keys of levels.
public enum LevelSharePolicy: String, Hashable, Sendable {
    /// No enrolment there.
    case required
    /// Enrolment there, with `background` and `active` under the device's own keys alone: that a session is needed for
    /// them is then this program's word, and no cryptography's.
    case whenOffered
}
