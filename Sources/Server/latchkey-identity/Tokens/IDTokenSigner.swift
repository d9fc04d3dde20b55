import JWTKit
import LatchkeyJOSE
import LatchkeyRelyingParty

/// Signs and verifies ID tokens with the keys in the database. Reads them again after
/// ``SigningKeySchedule/serverCache``, because another server or `signing-keys` can change them.
actor IDTokenSigner {
    private let store: SigningKeyStore
    private let algorithm: SigningKey.Algorithm
    private var keys: SigningKeySet
    private var reading: Task<SigningKeySet, any Error>?

    /// Loads the keys. Creates a key of the algorithm, with which the server signs, on first use.
    ///
    /// - Throws: ``ConfigurationError`` if the key file is missing or a wrong one.
    init(_ algorithm: SigningKey.Algorithm, store: SigningKeyStore) async throws {
        try await store.prepare(algorithm)
        self.store = store
        self.algorithm = algorithm
        keys = try await store.keys(signing: algorithm)
    }

    /// The public keys, as in the key set.
    func published() async throws -> [LatchkeyJOSE.JWK] {
        try await current().published(at: store.clock.timestamp)
    }

    func sign(_ token: IDToken) async throws -> String {
        try await current().sign(token, at: store.clock.timestamp)
    }

    /// The claims of a token that this server signed, expired or not.
    func verify(_ text: String) async throws -> IDToken? { try await current().verify(text) }

    private func current() async throws -> SigningKeySet {
        guard abs(store.clock.timestamp - keys.readAt) >= SigningKeySchedule.serverCache else {
            return keys
        }
        if let reading { return try await reading.value }
        let task = Task { [store, algorithm] in try await store.keys(signing: algorithm) }
        reading = task
        defer { reading = nil }
        keys = try await task.value
        return keys
    }
}

/// The claims of an ID token (OpenID Connect Core section 2), including Authgear's.
struct IDToken: JWTPayload {
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
    let isAnonymous: Bool
    let isVerified: Bool
    let canReauthenticate: Bool

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

    /// Checks nothing in addition to the signature: a token that is used as a hint may have
    /// expired.
    func verify(using algorithm: some JWTAlgorithm) {}
}
