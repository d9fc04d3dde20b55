internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// Decides whether an ID token is the issuer's, for this client, for this sign-in, and in time (OpenID Connect Core
/// section 3.1.3.7), and whether it belongs to the tokens that came with it.
struct IDTokenValidator: Sendable {
    /// How many seconds the clocks of issuer and device may differ.
    static let leeway: TimeInterval = 60
    /// How many seconds ago, or ahead, a new ID token may have been issued.
    static let issuedTimeLeeway: TimeInterval = 300

    let issuer: String
    let clientID: String
    /// What the authorization request had; nil when it had none, and then the ID token must have none either.
    var nonce: String?
    /// Whether the nonce is looked at: a refreshed ID token may go without (OpenID Connect Core section 12.2).
    var checksNonce = true
    /// The longest time since the person was authenticated, in seconds; nil for any.
    var maxAge: TimeInterval?
    /// Whom it must be about; nil for anybody.
    var subject: String?

    /// Checks the token's ID token.
    ///
    /// - Throws: The first flaw, in the order of the checks.
    func validate(_ token: Token, keys: JWKSet, now: Date) throws(IDTokenFlaw) {
        guard let jwt = token.idToken, let parts = JWS.parse(jwt.rawValue) else { throw .structure }
        try checkOrigin(jwt)
        try checkTimes(jwt, now)
        try checkPerson(jwt, now)
        try checkHash(jwt, "at_hash", of: token.accessToken, .accessTokenHash)
        if let secret = token.deviceSecret { try checkHash(jwt, "ds_hash", of: secret, .deviceSecretHash) }
        do throws(SignatureFlaw) {
            try parts.verify(with: keys)
        } catch {
            switch error {
            case .unreadable, .criticalExtension: throw .structure
            case .algorithm: throw .algorithm
            case .signature: throw .signature
            }
        }
    }

    private func checkOrigin(_ jwt: JWT) throws(IDTokenFlaw) {
        guard jwt.issuer == issuer else { throw .issuer }
        guard Endpoint(issuer) != nil else { throw .scheme }
        let party = jwt["azp"]
        guard jwt.audience.contains(clientID), party == nil || party == .string(clientID) else { throw .audience }
    }

    private func checkTimes(_ jwt: JWT, _ now: Date) throws(IDTokenFlaw) {
        guard let end = jwt.expirationTime, let issued = jwt.issuedTime else { throw .structure }
        guard end.timeIntervalSince(now) > -Self.leeway else { throw .expiration }
        guard abs(issued.timeIntervalSince(now)) <= Self.issuedTimeLeeway else { throw .issuedTime }
    }

    private func checkPerson(_ jwt: JWT, _ now: Date) throws(IDTokenFlaw) {
        if checksNonce { guard Self.equal(jwt["nonce"]?.string, nonce) else { throw .nonce } }
        if let maxAge {
            guard
                let time = jwt.authenticationTime, now.timeIntervalSince(time) <= maxAge + Self.leeway
            else { throw .authenticationTime }
        }
        guard let about = jwt.subject, (1...255).contains(about.utf8.count) else { throw .structure }
        guard subject ?? about == about else { throw .subject }
    }

    /// The left half of the SHA-256 of a token, in base64url. A claim that is absent is no flaw.
    private func checkHash(_ jwt: JWT, _ claim: String, of text: String, _ flaw: IDTokenFlaw) throws(IDTokenFlaw) {
        guard let hash = jwt[claim] else { return }
        let expected = Base64URL.encode(Data(SHA256.hash(data: Data(text.utf8)).prefix(16)))
        guard Self.equal(hash.string, expected) else { throw flaw }
    }

    private static func equal(_ left: String?, _ right: String?) -> Bool {
        guard let left, let right else { return left == nil && right == nil }
        return constantTimeEqual(Array(left.utf8), Array(right.utf8))
    }
}
