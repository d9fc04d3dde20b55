/// When a key wants to be touched; the numbers are Yubico's.
public enum TouchPolicy: UInt8, Sendable {
    /// No touch.
    case never = 1
    /// A touch at each use.
    case always = 2
    /// Unless it was touched within the last 15 seconds.
    case cached = 3
}
