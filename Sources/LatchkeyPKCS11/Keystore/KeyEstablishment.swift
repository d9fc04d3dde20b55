/// How a host and a token come to share a secret that only the token can find out again.
enum KeyEstablishment: Hashable, Sendable {
    /// Key agreement: ECDH over P-256 between a throw-away key and one on the token (NIST SP 800-56A).
    case agreement
    /// Key transport: random bytes encrypted to an RSA key on the token by RSA-OAEP (NIST SP 800-56B), for tokens that
    /// have no ECDH.
    case transport
}
