internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// Proof Key for Code Exchange (RFC 7636) with S256.
package struct PKCE: Sendable {
    /// 43 characters.
    package let verifier: String

    /// A new one from 32 random bytes.
    package static func random() -> PKCE {
        PKCE(verifier: RandomText.make())
    }

    /// base64url of the verifier's SHA-256, 43 characters.
    package var challenge: String {
        Base64URL.encode(Data(SHA256.hash(data: Data(verifier.utf8))))
    }
}
