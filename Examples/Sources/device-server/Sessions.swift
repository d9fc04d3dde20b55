import Crypto
import Foundation
import Hummingbird
import Latchkey
import LatchkeyRelyingParty

/// A request of the login page (OpenID Connect Core section 3.1.2.1), with PKCE (RFC 7636).
struct AuthorizationRequest: Sendable {
    /// The only client.
    static let client = "example"

    let redirectURI: String
    let state: String
    let nonce: String
    let codeChallenge: String

    /// The redirect must lead to a loopback port of the user's machine (RFC 8252 section 7.3).
    init(_ parameters: Parameters) throws {
        guard parameters.get("client_id") == Self.client,
            let redirect = parameters.get("redirect_uri"),
            redirect.wholeMatch(of: /http:\/\/127\.0\.0\.1:[0-9]{1,5}\/callback/) != nil
        else { throw OAuthError.invalidRequest("the client or its redirect URI is unknown") }
        guard parameters.get("response_type") == "code",
            parameters.get("code_challenge_method") == "S256",
            let challenge = parameters.get("code_challenge"), let state = parameters.get("state")
        else { throw OAuthError.invalidRequest("a parameter is missing or not supported") }
        redirectURI = redirect
        codeChallenge = challenge
        nonce = parameters.get("nonce") ?? ""
        self.state = state
    }
}

/// The login of a user, in the browser or with a device.
struct Session: Sendable {
    let user: String
    let device: KeyID?
    let nonce: String
    var accessExpiresAt = Date()
}

/// The sessions and the key of the ID tokens. They end with the process.
actor Sessions {
    private static let accessLifetime = 300

    private let issuer: String
    private let key = P256.Signing.PrivateKey()
    private var codes: [String: (request: AuthorizationRequest, user: String, expiresAt: Date)] =
        [:]
    /// By refresh token, and the refresh token by access token.
    private var sessions: [String: Session] = [:]
    private var accessTokens: [String: String] = [:]
    private var attempts: [Date] = []

    init(issuer: String) { self.issuer = issuer }

    nonisolated var publicKey: [String: String] {
        let point = key.publicKey.rawRepresentation
        return [
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "1",
            "x": base64URL(point.prefix(32)), "y": base64URL(point.suffix(32)),
        ]
    }

    /// Whether another password may be tried: ten a minute.
    func admitsPassword() -> Bool {
        attempts.removeAll { $0 < Date(timeIntervalSinceNow: -60) }
        attempts.append(Date())
        return attempts.count <= 10
    }

    func code(for request: AuthorizationRequest, user: String) -> String {
        codes = codes.filter { $0.value.expiresAt > Date() }
        let code = randomText()
        codes[code] = (request, user, Date(timeIntervalSinceNow: 60))
        return code
    }

    func redeem(code: String, verifier: String, redirectURI: String) throws -> [String: Value] {
        guard let entry = codes.removeValue(forKey: code), entry.expiresAt > Date(),
            entry.request.redirectURI == redirectURI,
            base64URL(SHA256.hash(data: Data(verifier.utf8))) == entry.request.codeChallenge
        else { throw OAuthError("invalid_grant", "the code is used, expired or another client's") }
        return try tokens(Session(user: entry.user, device: nil, nonce: entry.request.nonce))
    }

    func begin(user: String, device: KeyID) throws -> [String: Value] {
        end(device: device)
        return try tokens(Session(user: user, device: device, nonce: ""))
    }

    /// Replaces a refresh token (RFC 9700 section 2.2.2).
    func refresh(_ token: String) throws -> [String: Value] {
        guard let session = sessions[token] else {
            throw OAuthError("invalid_grant", "the session has ended")
        }
        end(refreshToken: token)
        return try tokens(session)
    }

    func session(bearer: String?) throws -> Session {
        guard let bearer, bearer.hasPrefix("Bearer "),
            let refresh = accessTokens[String(bearer.dropFirst(7))],
            let session = sessions[refresh], session.accessExpiresAt > Date()
        else { throw OAuthError(status: 401, "invalid_token", "there is no session") }
        return session
    }

    func end(refreshToken: String) {
        sessions[refreshToken] = nil
        accessTokens = accessTokens.filter { $0.value != refreshToken }
    }

    func end(device: KeyID) {
        for (token, session) in sessions where session.device == device { end(refreshToken: token) }
    }

    private func tokens(_ session: Session) throws -> [String: Value] {
        let (access, refresh) = (randomText(), randomText())
        var session = session
        session.accessExpiresAt = Date(timeIntervalSinceNow: Double(Self.accessLifetime))
        sessions[refresh] = session
        accessTokens[access] = refresh
        return [
            "access_token": .text(access), "refresh_token": .text(refresh),
            "token_type": .text("Bearer"), "expires_in": .number(Self.accessLifetime),
            "id_token": .text(try idToken(for: session)),
        ]
    }

    private func idToken(for session: Session) throws -> String {
        let now = Int(Date().timeIntervalSince1970)
        let header: [String: Value] = ["alg": .text("ES256"), "kid": .text("1")]
        let claims: [String: Value] = [
            "iss": .text(issuer), "aud": .text(AuthorizationRequest.client),
            "sub": .text(session.user), "nonce": .text(session.nonce), "iat": .number(now),
            "exp": .number(now + Self.accessLifetime),
        ]
        let text = try [header, claims].map { base64URL(try JSONEncoder().encode($0)) }
            .joined(separator: ".")
        return text + "." + base64URL(try key.signature(for: Data(text.utf8)).rawRepresentation)
    }
}

/// A value in a JSON object.
enum Value: Encodable, Sendable {
    case text(String)
    case number(Int)
    case flag(Bool)

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .text(let text): try container.encode(text)
        case .number(let number): try container.encode(number)
        case .flag(let flag): try container.encode(flag)
        }
    }
}

private func base64URL(_ bytes: some Sequence<UInt8>) -> String {
    Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
        .replacing("=", with: "")
}

private func randomText() -> String {
    base64URL(SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) })
}
