/// When a key wants the PIN; the numbers are Yubico's.
public enum PINPolicy: UInt8, Sendable {
    /// No PIN.
    case never = 1
    /// Once after the card was selected.
    case once = 2
    /// Right before each use.
    case always = 3
}
