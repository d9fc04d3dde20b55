public import FoundationEssentials

/// What the hardware's guard against PIN guessing says at the moment.
public struct PINStatus: Hashable, Sendable {
    /// How many more wrong PINs it will take before it locks, where it says so.
    public var attemptsLeft: Int?
    /// How many wrong PINs in a row it takes at most, where it says so.
    public var attemptLimit: Int?
    /// Whether it takes no PIN now.
    public var isLockedOut: Bool
    /// When it will take one again, where it says so. The hardware counts its own powered-on time: a machine that was
    /// off meanwhile waits longer.
    public var lockedOutUntil: Date?
    /// How many seconds it takes until one wrong PIN is forgotten, where it says so.
    public var recoverySeconds: Int?

    /// What a keystore read off its hardware. Only keystores call this.
    public init(
        attemptsLeft: Int?, attemptLimit: Int?, isLockedOut: Bool, lockedOutUntil: Date? = nil,
        recoverySeconds: Int? = nil
    ) {
        self.attemptsLeft = attemptsLeft
        self.attemptLimit = attemptLimit
        self.isLockedOut = isLockedOut
        self.lockedOutUntil = lockedOutUntil
        self.recoverySeconds = recoverySeconds
    }
}
