/// Which proof to ask for where a key lets its owner choose.
public enum PresencePreference: String, Sendable, CaseIterable {
    /// Both are offered; the first that comes is taken.
    case any
    /// The PIN; no finger is asked for.
    case pin
    /// A finger; no PIN is asked for.
    case finger
}
