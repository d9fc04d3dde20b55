/// How a host and a token come to share a secret that only the token can find out again.
enum KeyEstablishment: Hashable, Sendable {
    /// Key agreement: ECDH over P-256 between a key on the token and a point that nobody knows the logarithm of (NIST SP
    /// 800-56A).
    case agreement
    /// The signature of an RSA key on the token, which has one only for each message (RSASSA-PKCS1-v1_5, RFC 8017
    /// section 8.2), for tokens that have no ECDH.
    case signature
}
