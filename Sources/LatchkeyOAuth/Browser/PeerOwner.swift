/// Whose program has connected to this user's loopback port.
enum PeerOwner {
    /// One of the user as whom this program runs.
    case us
    case somebodyElse
    /// The system does not tell.
    case unknowable
}
