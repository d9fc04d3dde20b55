public import FoundationEssentials
internal import Latchkey

/// A text that a server gives out once and takes back once, so that an answer can't be replayed.
public struct Challenge: Hashable, Sendable {
    /// How long a challenge lives: 300 seconds.
    public static let lifetime: TimeInterval = 300
    /// The length of ``token`` in characters. Each stands for 5 random bits, 160 bits in all.
    public static let tokenLength = 32

    /// 32 characters of Crockford's base 32: digits and upper-case letters without I, L, O and U.
    public let token: String
    /// The only purpose that it serves.
    public let purpose: ChallengePurpose
    /// The moment from which on it is refused.
    public let expiresAt: Date

    /// A new challenge.
    public init(_ purpose: ChallengePurpose, clock: WallClock, random: RandomSource) {
        token = String(decoding: random.bytes(Self.tokenLength).map { Self.alphabet[Int($0 & 31)] }, as: UTF8.self)
        self.purpose = purpose
        expiresAt = clock.now.addingTimeInterval(Self.lifetime)
    }

    private static let alphabet = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)

    /// SHA-256 of a token: what a store keeps, so that nobody who reads the store can use a challenge, and so that
    /// looking one up takes no time that depends on its text.
    static func digest(_ token: String) -> [UInt8] {
        MessageDigest(sha256: token.utf8).bytes
    }
}
