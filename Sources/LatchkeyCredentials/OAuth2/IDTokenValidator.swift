internal import Crypto
public import FoundationEssentials
public import Latchkey
internal import LatchkeyOAuth

/// Decides whether an ID token is the server's, for this program, for this login, and in time (OpenID Connect Core
/// section 3.1.3.7). RS256 and ES256; nothing else, whatever the token says.
public struct IDTokenValidator: Sendable {
    /// By how many seconds the clocks of server and device may differ.
    public static let leeway: TimeInterval = 60
    /// How many seconds ago, or from now, a token may have been issued.
    public static let issuedAtGraceInterval: TimeInterval = 300

    /// The issuer, character by character as the token must name it.
    public let issuer: String
    /// The `client_id` that must be in its audience.
    public let clientID: String

    /// What an ID token of this server for this client is held against.
    public init(issuer: String, clientID: String) {
        self.issuer = issuer
        self.clientID = clientID
    }

    /// What the token belongs to. What is nil is not checked.
    public struct Companions: Sendable {
        /// What the authorization request had.
        public var nonce: String?
        /// What came with the token, for `at_hash`.
        public var accessToken: String?
        /// What was exchanged for the token, for `c_hash`.
        public var code: String?
        /// What came with the token, for `ds_hash`.
        public var deviceSecret: String?
        /// How many seconds ago the user may have logged in at most (`auth_time`).
        public var maximumAge: TimeInterval?

        /// What the login that an ID token comes from asked for.
        public init(
            nonce: String? = nil, accessToken: String? = nil, code: String? = nil, deviceSecret: String? = nil,
            maximumAge: TimeInterval? = nil
        ) {
            self.nonce = nonce
            self.accessToken = accessToken
            self.code = code
            self.deviceSecret = deviceSecret
            self.maximumAge = maximumAge
        }
    }

    /// Checks claims, hashes and signature.
    ///
    /// - Parameter keys: The server's keys.
    /// - Throws: ``CredentialError`` with code `invalidToken`; the reason names the first check that failed.
    public func validate(
        _ token: JWT, keys: [JWK], with companions: Companions = Companions(), at now: Date = Date()
    ) throws(CredentialError) {
        try checkClaims(token, with: companions, at: now)
        try checkSignature(token, keys: keys)
    }

    /// Checks that one of the keys made the signature.
    func checkSignature(_ token: JWT, keys: [JWK]) throws(CredentialError) {
        guard let parts = JWS.parse(token.rawValue) else { throw refusal("can't be read") }
        do throws(SignatureFlaw) {
            try parts.verify(with: JWKSet(keys: keys))
        } catch {
            throw refusal("is not signed by the server")
        }
    }

    /// Checks everything but the signature.
    func checkClaims(_ token: JWT, with companions: Companions, at now: Date) throws(CredentialError) {
        guard token.issuer == issuer else { throw refusal("comes from ‘\(token.issuer ?? "nobody")’") }
        let party = token["azp"].map { $0.string ?? "" }
        guard IDTokenAudience(token.audience, authorizedParty: party).isOnly(clientID, of: issuer) else {
            throw refusal("is for another program")
        }
        guard let subject = token.subject, (1...255).contains(subject.utf8.count), subject.isVisibleASCII else {
            throw refusal("names no user")
        }
        try checkTimes(token, companions.maximumAge, now.timeIntervalSince1970)
        if let nonce = companions.nonce, token["nonce"]?.string.map({ Self.isEqual($0, nonce) }) != true {
            throw refusal("belongs to another login")
        }
        try checkHash("at_hash", of: companions.accessToken, in: token)
        try checkHash("c_hash", of: companions.code, in: token)
        try checkHash("ds_hash", of: companions.deviceSecret, in: token)
    }

    private func checkTimes(_ token: JWT, _ maximumAge: TimeInterval?, _ now: TimeInterval) throws(CredentialError) {
        guard let end = token["exp"]?.number, let issued = token["iat"]?.number else {
            throw refusal("does not say when it was issued and when it ends")
        }
        guard end > now - Self.leeway else { throw refusal("has ended") }
        guard abs(issued - now) <= Self.issuedAtGraceInterval else {
            throw refusal("was not issued now, or one of the clocks is wrong")
        }
        guard token["nbf"]?.number ?? 0 < now + Self.leeway else { throw refusal("is not valid yet") }
        guard let maximumAge else { return }
        guard let login = token["auth_time"]?.number, now - login <= maximumAge + Self.leeway else {
            throw refusal("is of a login that is too long ago")
        }
    }

    /// The left half of the SHA-256 digest (OpenID Connect Core section 3.3.2.11). A hash that is not there is no
    /// reason to refuse.
    private func checkHash(_ name: Claim, of value: String?, in token: JWT) throws(CredentialError) {
        guard let value, let hash = token[name] else { return }
        let expected = Base64URL.encode(Data(SHA256.hash(data: Data(value.utf8)).prefix(16)))
        guard let hash = hash.string, Self.isEqual(hash, expected) else {
            throw refusal("does not belong to what came with it (\(name))")
        }
    }

    private static func isEqual(_ left: String, _ right: String) -> Bool {
        constantTimeEqual(Array(left.utf8), Array(right.utf8))
    }

    private func refusal(_ reason: String) -> CredentialError { .invalidToken("trust the server's answer", reason) }
}
