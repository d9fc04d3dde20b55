import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// Level shares in an answer: base64url without padding, 43 characters each. They have left locked memory: make them
/// where the answer is made.
struct ReleasedShares: Sendable, Encodable {
    let background: String
    let active: String?

    static func both(of shares: LevelShares) -> ReleasedShares {
        ReleasedShares(background: text(shares.background), active: text(shares.active))
    }

    /// The share of the level `background` alone.
    static func backgroundAlone(of shares: LevelShares) -> ReleasedShares {
        ReleasedShares(background: text(shares.background), active: nil)
    }

    private static func text(_ share: SecretBytes) -> String {
        share.withUnsafeBytes { Base64URL.encode(Data($0)) }
    }
}
