/// Which of an algorithm's keys signs, and which are in the key set.
///
/// A new key is published before it signs, so that clients that cache the key set know it. The key
/// before it stays published until its tokens have expired.
struct SigningKeySchedule: Sendable {
    /// The phase of a key's life.
    enum State: String, Encodable, Sendable {
        /// Published, and signs later.
        case next
        /// Signs, if its algorithm is the configured one.
        case current
        /// Published, and no longer signs.
        case retired
        /// No longer published. Its tokens are accepted as `id_token_hint`, as expired tokens are.
        case unpublished
        /// No longer used. The next start or rotation deletes it.
        case expired
    }

    /// Seconds for which a server uses the keys without reading the database.
    static let serverCache = 10.0
    /// Seconds for which clients may cache the key set. Latchkey's clients cache it for an hour.
    static let clientCache = 3_600.0
    /// Seconds from the publication of a key until it signs.
    static let publication = serverCache + clientCache
    /// Seconds for which a key is published after the next one began to sign: the time until each
    /// server uses the next one, the lifetime of the last token, and the difference between clocks
    /// that clients tolerate.
    static let retirement = serverCache + Double(IDToken.lifetime) + 60

    /// Seconds for which a key verifies `id_token_hint` after leaving the key set: longer than the
    /// default session lifetime.
    static let hints = 365 * 86_400.0

    /// When each key begins to sign, in seconds since 1970 and in ascending order.
    private let signsFrom: [Double]

    init(_ signsFrom: [Double]) { self.signsFrom = signsFrom }

    /// The index of the key that signs. If all begin in the future, because a clock was set back,
    /// it is the first.
    func current(at now: Double) -> Int { signsFrom.lastIndex { $0 <= now } ?? 0 }

    /// When a key leaves the key set; nil for the last key.
    func publishedUntil(_ index: Int) -> Double? {
        index + 1 < signsFrom.count ? signsFrom[index + 1] + Self.retirement : nil
    }

    func state(of index: Int, at now: Double) -> State {
        let current = current(at: now)
        if index >= current { return index == current ? .current : .next }
        let end = publishedUntil(index) ?? .infinity
        return end > now ? .retired : end + Self.hints > now ? .unpublished : .expired
    }

    /// The indices of the keys in the key set.
    func published(at now: Double) -> [Int] {
        signsFrom.indices.filter { [.next, .current, .retired].contains(state(of: $0, at: now)) }
    }

    /// The indices of the keys that verify tokens at this server.
    func verifying(at now: Double) -> [Int] {
        signsFrom.indices.filter { state(of: $0, at: now) != .expired }
    }
}
