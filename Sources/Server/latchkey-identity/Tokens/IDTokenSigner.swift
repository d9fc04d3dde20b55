import FoundationEssentials
import LatchkeyJOSE
import LatchkeyRelyingParty

/// Signs and verifies ID tokens with the keys in the database, one for each algorithm. All servers
/// on the database have the same keys. It publishes the keys of all algorithms and signs with one,
/// so that a change of the algorithm does not invalidate tokens.
struct IDTokenSigner: Sendable {
    /// The public keys, as in the key set.
    let published: [JWK]
    private let key: SigningKey

    /// Loads the keys. Creates the key of the algorithm on first use.
    ///
    /// - Throws: ``ConfigurationError`` if the key file is missing or a wrong one.
    init(_ algorithm: SigningKey.Algorithm, secrets: SecretStore) async throws {
        var published: [JWK] = []
        // The others first, so that a wrong key file is refused before a key is stored.
        for other in SigningKey.Algorithm.allCases where other != algorithm {
            guard let der = try await secrets.privateKey(Self.name(other)) else { continue }
            let key = try SecretStore.reading(Self.name(other)) { try SigningKey(other, der: der) }
            published.append(key.jwk)
        }
        let der = try await secrets.privateKey(Self.name(algorithm)) {
            try SigningKey(algorithm).der
        }
        key = try SecretStore.reading(Self.name(algorithm)) { try SigningKey(algorithm, der: der) }
        self.published = published + [key.jwk]
    }

    private static func name(_ algorithm: SigningKey.Algorithm) -> String {
        "signing key \(algorithm.rawValue)"
    }

    func sign(_ token: IDToken) throws -> String { try key.sign(token) }

    /// The claims of a token that this server signed, expired or not.
    func verify(_ text: String) -> IDToken? {
        guard let jws = try? ReceivedJWS(text),
            (try? jws.verify(with: JWKS(keys: published))) != nil
        else { return nil }
        return try? JSONDecoder().decode(IDToken.self, from: jws.payloadJSON)
    }
}

/// The claims of an ID token (OpenID Connect Core section 2), including Authgear's.
struct IDToken: Codable, Sendable {
    /// Seconds from the issue.
    static let lifetime = 300

    let issuer: String
    let audience: [String]
    let subject: String
    let issuedAt: Int
    let expiresAt: Int
    let authTime: Int
    let sessionID: String
    let amr: [String]?
    let nonce: String?
    // Authgear's, which its SDKs require.
    var isAnonymous = false
    var isVerified = false
    var canReauthenticate = true

    enum CodingKeys: String, CodingKey {
        case issuer = "iss"
        case audience = "aud"
        case subject = "sub"
        case issuedAt = "iat"
        case expiresAt = "exp"
        case authTime = "auth_time"
        case sessionID = "sid"
        case amr, nonce
        case isAnonymous = "https://authgear.com/claims/user/is_anonymous"
        case isVerified = "https://authgear.com/claims/user/is_verified"
        case canReauthenticate = "https://authgear.com/claims/user/can_reauthenticate"
    }

    /// The grant of the session for which the token was issued.
    var grantID: String? { LoginGrant.id(ofSession: sessionID) }
}
