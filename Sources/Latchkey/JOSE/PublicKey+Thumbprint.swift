internal import FoundationEssentials

extension PublicKey {
    /// The key's thumbprint as a JWK, with SHA-256 (RFC 7638 section 3): 43 characters of base64url.
    package var thumbprint: String {
        let (x, y) = (Base64URL.encode(x), Base64URL.encode(y))
        let members = #"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#
        return Base64URL.encode(Data(MessageDigest(sha256: members.utf8).bytes))
    }
}
