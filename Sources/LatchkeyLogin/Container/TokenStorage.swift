/// Where a container keeps the session's tokens. Keys and user ids are always stored.
public enum TokenStorage: Hashable, Sendable {
    /// In the store, encrypted under a key that the hardware holds.
    case persistent
    /// In this object's memory only: the session ends with the program.
    case memory
}
