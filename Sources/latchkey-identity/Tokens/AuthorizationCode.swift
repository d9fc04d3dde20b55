import Crypto
import FoundationEssentials
import GRDB
import Latchkey

/// What an authorization code stands for.
struct AuthorizationCode: Sendable, Codable, FetchableRecord, PersistableRecord {
    static let databaseTableName = "authorization_code"
    /// Seconds.
    static let lifetime = 60.0

    let digest: Data
    /// The grant that the code becomes.
    let grantID: String
    let clientID: String
    let userID: String
    let redirectURI: String
    /// SHA-256 of the verifier in base64url (RFC 7636 section 4.2).
    let codeChallenge: String
    let scope: String
    let nonce: String?
    let authTime: Double
    let expiresAt: Double
    let isUsed: Bool

    enum CodingKeys: String, CodingKey {
        case digest, scope, nonce
        case grantID = "grant_id"
        case clientID = "client_id"
        case userID = "user_id"
        case redirectURI = "redirect_uri"
        case codeChallenge = "code_challenge"
        case authTime = "auth_time"
        case expiresAt = "expires_at"
        case isUsed = "is_used"
    }

    /// Whether a PKCE verifier is the one whose hash came with the request.
    func accepts(verifier: String) -> Bool {
        guard ProofKey.isVerifier(verifier) else { return false }
        return constantTimeEqual(Array(ProofKey.challenge(verifier).utf8), Array(codeChallenge.utf8))
    }
}

/// Proof Key for Code Exchange (RFC 7636), method S256.
enum ProofKey {
    /// 43 to 128 characters of `A-Z a-z 0-9 - . _ ~` (section 4.1).
    static func isVerifier(_ text: String) -> Bool {
        (43...128).contains(text.utf8.count) && FormFields.encode(text) == text
    }

    /// 43 characters: SHA-256 in base64url (section 4.2).
    static func isChallenge(_ text: String) -> Bool {
        Base64URL.decode(text)?.count == SHA256.byteCount
    }

    static func challenge(_ verifier: String) -> String {
        Base64URL.encode(MessageDigest(sha256: verifier.utf8).bytes)
    }
}
