/// Whether a person may be recognised while there is no network, and how long that goes.
public struct OfflineVerification: Hashable, Sendable {
    /// How often in a row the secret may be wrong; the hardware counts too.
    public var maximumAttempts: Int
    /// For how long after the last start with a network it may be done.
    public var maximumAge: Duration

    /// - Parameters:
    ///   - maximumAttempts: See ``maximumAttempts``; at least 1.
    ///   - maximumAge: See ``maximumAge``; a week by default.
    public init(maximumAttempts: Int = 2, maximumAge: Duration = .seconds(7 * 86_400)) {
        self.maximumAttempts = maximumAttempts
        self.maximumAge = maximumAge
    }
}
