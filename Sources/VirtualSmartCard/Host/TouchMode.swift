/// What happens when a key wants to be touched.
public enum TouchMode: String, CaseIterable, Sendable {
    /// Somebody touches it at once.
    case auto
    /// Somebody says no: it gives up at once.
    case deny
    /// It waits for ``VirtualCard/press()``, for as long as its timeout.
    case wait
}
