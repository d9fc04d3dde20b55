/// Whose program has connected to this user's loopback port.
enum PeerOwner {
    /// One of the user as whom this program runs.
    case us
    case somebodyElse
    /// The system does not tell.
    case unknowable

    /// Whether the peer is certainly a program of this user; nil for a peer that is not.
    var isKnown: Bool? {
        switch self {
        case .us: true
        case .somebodyElse: nil
        case .unknowable: false
        }
    }
}
