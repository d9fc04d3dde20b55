import Crypto
import Foundation
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyOAuth

/// A server that behaves as `authgear.md` sections 2 and 3 say, in memory: the other side of the
/// wire, with switches for what servers differ in.
actor FakeIdentity: HTTPTransport {
    static let address = "https://identity.test"

    /// The behaviour of this server.
    struct Manner: Sendable {
        var hasRemovalEndpoint = true
        var takesUserIDHint = false
        var rotatesRefreshTokens = false
        var algorithm = TokenSigner.Algorithm.es256
        /// How far the server's clock is ahead of the real one.
        var clockOffset: TimeInterval = 0
        var saysItsTime = true
        var accessTokenLife = 1800
        /// How many seconds a challenge lives.
        var challengeLife: TimeInterval = 300
        /// The number of challenges that it loses before it keeps one.
        var losesChallenges = 0
        /// Wrong values for ID tokens.
        var nonce: String?
        var issuer: String?
        /// Its audience, instead of the client, and the authorized party.
        var audience = ["app"]
        var authorizedParty: String?
        /// Members of the discovery document that are others.
        var discovery: [String: String] = [:]
        /// Whether it announces that authorization responses name their issuer, and which one they
        /// name.
        var announcesIssuer = false
        var namedIssuer: String?
        /// Whether it announces that biometric requests must name their audience.
        var requiresAudience = false
        /// Whether it can authenticate its users again; nil if it does not say it.
        var canReauthenticate: Bool? = true
        /// Whether it has the grant for ID tokens alone, and one-time tokens for its pages.
        var issuesIDTokens = true
        var issuesPageTokens = true
        /// How long ago the visitor logged in, in seconds: it ignores `max_age`.
        var loginAge = 0
        /// How long ago it issued the ID tokens that it sends, in seconds.
        var idTokenAge = 0
    }

    struct Identity: Sendable {
        let userID: String
        let x: String
        let y: String
    }

    var manner: Manner
    /// Who logs in when a browser comes.
    var visitor = "user-a"
    private(set) var identities: [String: Identity] = [:]
    private(set) var refreshTokens: [String: String] = [:]
    private var accessTokens: [String: String] = [:]
    private var challenges: Set<String> = []
    private var codes: [String: [String: String]] = [:]
    /// When each user was last authenticated.
    private var authTimes: [String: Int] = [:]
    /// The tokens for its pages, and their users.
    private(set) var pageTokens: [String: String] = [:]
    private let signer: TokenSigner

    init(_ manner: Manner = Manner()) throws {
        self.manner = manner
        signer = try TokenSigner(manner.algorithm)
    }

    func set(_ change: @Sendable (inout Manner) -> Void) { change(&manner) }
    func setVisitor(_ userID: String) { visitor = userID }
    func removeIdentity(_ kid: String) { identities[kid] = nil }
    func endAllSessions() { refreshTokens = [:]; accessTokens = [:] }
    func forgetAccessTokens() { accessTokens = [:] }

    /// What happens in the browser: the visitor logs in.
    ///
    /// - Returns: The query with which the browser is sent back.
    func visit(_ query: [String: String]) -> String {
        let code = UUID().uuidString
        codes[code] = query.merging(["sub": visitor]) { old, _ in old }
        return "code=\(code)&state=\(query["state"] ?? "")"
            + (manner.namedIssuer.map { "&iss=\($0)" } ?? "")
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        var (response, bytes) = await answer(request, String(decoding: body, as: UTF8.self))
        if manner.saysItsTime { response.headerFields[.date] = Self.httpDate(now) }
        return (response, bytes)
    }

    private var now: Date { Date().addingTimeInterval(manner.clockOffset) }

    private func answer(_ request: HTTPRequest, _ body: String) async -> (HTTPResponse, [UInt8]) {
        let bearer = request.headerFields[.authorization].flatMap { field in
            field.hasPrefix("Bearer ") ? accessTokens[String(field.dropFirst(7))] : nil
        }
        switch (request.method, request.path ?? "") {
        case (.get, "/.well-known/openid-configuration"): return json(discovery)
        case (.get, "/oauth2/jwks"): return text((try? signer.keySet) ?? "")
        case (.post, "/oauth2/challenge"): return challenge(body)
        case (.post, "/oauth2/token"): return await token(form(body), bearer)
        case (.get, "/oauth2/userinfo"):
            guard let bearer else { return refuse(401, "invalid_grant", "invalid session") }
            return json([
                "sub": bearer, "email": "\(bearer)@identity.test", "custom_attributes": ["x": 1],
            ])
        case (.post, "/oauth2/app_session_token"): return pageToken(body)
        case (.post, "/oauth2/revoke"):
            refreshTokens[form(body)["token"] ?? ""] = nil
            return empty(200)
        case (.post, "/api/identity/biometric/remove"): return remove(body, bearer)
        default: return empty(404)
        }
    }

    private var discovery: [String: Any] {
        var document: [String: Any] = ["issuer": Self.address]
        for (name, path) in [
            ("authorization_endpoint", "authorize"), ("token_endpoint", "token"),
            ("userinfo_endpoint", "userinfo"),
            ("revocation_endpoint", "revoke"), ("end_session_endpoint", "end_session"),
            ("jwks_uri", "jwks"),
        ] { document[name] = "\(Self.address)/oauth2/\(path)" }
        if manner.hasRemovalEndpoint {
            document["biometric_removal_endpoint"] = "\(Self.address)/api/identity/biometric/remove"
        }
        if manner.takesUserIDHint { document["biometric_login_hint_supported"] = true }
        if manner.announcesIssuer {
            document["authorization_response_iss_parameter_supported"] = true
        }
        if manner.requiresAudience { document["biometric_audience_required"] = true }
        document.merge(manner.discovery) { $1 }
        return document
    }

    private func challenge(_ body: String) -> (HTTPResponse, [UInt8]) {
        guard body == #"{"purpose":"biometric_request"}"# else { return empty(400) }
        let token = String(
            (0..<32).map { _ in "0123456789ABCDEFGHJKMNPQRSTVWXYZ".randomElement() ?? "0" })
        if manner.losesChallenges > 0 {
            manner.losesChallenges -= 1
        } else {
            challenges.insert(token)
        }
        let expiry = now.addingTimeInterval(manner.challengeLife).ISO8601Format(
            .init(includingFractionalSeconds: true))
        return json(["result": ["token": token, "expire_at": expiry]])
    }

    private func token(_ form: [String: String], _ bearer: String?) async -> (HTTPResponse, [UInt8])
    {
        guard form["client_id"] == "app" else {
            return refuse(400, "invalid_client", "invalid client ID")
        }
        switch form["grant_type"] {
        case "authorization_code":
            guard
                let code = codes.removeValue(forKey: form["code"] ?? ""),
                code["redirect_uri"] == form["redirect_uri"],
                code["code_challenge"] == Self.s256(form["code_verifier"] ?? "")
            else { return refuse(400, "invalid_grant", "invalid authorization code") }
            let userID = code["sub"] ?? ""
            authTimes[userID] = Int(now.timeIntervalSince1970) - manner.loginAge
            let scopes = code["scope"]?.split(separator: " ") ?? []
            return await issue(
                userID, nonce: code["nonce"], hasRefreshToken: scopes.contains("offline_access"))
        case "refresh_token":
            guard let userID = refreshTokens[form["refresh_token"] ?? ""] else {
                return refuse(400, "invalid_grant", "invalid refresh token")
            }
            if manner.rotatesRefreshTokens { refreshTokens[form["refresh_token"] ?? ""] = nil }
            return await issue(
                userID, nonce: nil, hasRefreshToken: manner.rotatesRefreshTokens)
        case "urn:authgear:params:oauth:grant-type:id-token" where manner.issuesIDTokens:
            guard let bearer else {
                return refuse(401, "invalid_grant", "valid session is required")
            }
            return json(["id_token": await idToken(of: bearer)])
        case "urn:authgear:params:oauth:grant-type:biometric-request":
            return await biometric(form, bearer)
        default: return refuse(400, "unsupported_grant_type", nil)
        }
    }

    private func biometric(_ form: [String: String], _ bearer: String?) async -> (
        HTTPResponse, [UInt8]
    ) {
        let invalid = refuse(400, "invalid_grant", "InvalidCredentials")
        guard
            let jwt = form["jwt"], let parts = try? ReceivedJWS(jwt),
            let header = try? JSONSerialization.jsonObject(with: parts.headerJSON)
                as? [String: Any],
            let payload = try? JSONSerialization.jsonObject(with: parts.payloadJSON)
                as? [String: Any],
            let kid = header["kid"] as? String,
            header["typ"] as? String == "vnd.authgear.biometric-request",
            let iat = payload["iat"] as? Int, let exp = payload["exp"] as? Int
        else { return refuse(400, "invalid_request", "bad jwt") }
        let isSetup = payload["action"] as? String == "setup"
        if isSetup && bearer == nil {
            return refuse(401, "invalid_grant", "biometric setup requires authenticated user")
        }
        let seconds = Int(now.timeIntervalSince1970)
        guard iat <= seconds + 300, exp > seconds - 300 else { return invalid }
        guard challenges.remove(payload["challenge"] as? String ?? "") != nil else {
            return invalid
        }
        if isSetup {
            guard
                let jwk = header["jwk"] as? [String: String], jwk["kid"] == kid,
                jwk["alg"] == "ES256",
                Set(jwk.keys) == ["kty", "crv", "alg", "kid", "x", "y"], let x = jwk["x"],
                let y = jwk["y"],
                let device = payload["device_info"] as? [String: [String: [String: String]]],
                let machine = device["ios"]?["uname"]?["machine"], !machine.isEmpty,
                machine != "x86_64",
                await TokenSigner.isSigned(jwt, x: x, y: y), let bearer
            else { return invalid }
            guard identities[kid] == nil else {
                return refuse(500, "server_error", "internal server error")
            }
            identities[kid] = Identity(userID: bearer, x: x, y: y)
            return empty(200)
        }
        guard let identity = identities[kid],
            await TokenSigner.isSigned(jwt, x: identity.x, y: identity.y)
        else {
            return invalid
        }
        authTimes[identity.userID] = seconds
        return await issue(identity.userID, nonce: nil)
    }

    private func pageToken(_ body: String) -> (HTTPResponse, [UInt8]) {
        guard manner.issuesPageTokens else { return empty(404) }
        let members = try? JSONDecoder().decode([String: String].self, from: Data(body.utf8))
        guard members?.count == 1, let userID = refreshTokens[members?["refresh_token"] ?? ""]
        else {
            let error = ["name": "Forbidden", "reason": "InvalidGrant", "message": "invalid_grant"]
            return json(["error": error], status: 403)
        }
        let token = UUID().uuidString
        pageTokens[token] = userID
        return json(["result": ["app_session_token": token, "expire_at": now.ISO8601Format()]])
    }

    private func issue(
        _ userID: String, nonce: String?, hasRefreshToken: Bool = true
    ) async -> (HTTPResponse, [UInt8]) {
        let access = "access-\(UUID().uuidString)"
        accessTokens[access] = userID
        var answer: [String: Any] = [
            "access_token": access, "token_type": "Bearer", "expires_in": manner.accessTokenLife,
            "id_token": await idToken(of: userID, nonce: nonce, access), "some_new_member": true,
        ]
        if hasRefreshToken {
            let refresh = "\(UUID().uuidString).refresh"
            refreshTokens[refresh] = userID
            answer["refresh_token"] = refresh
        }
        return json(answer)
    }

    private func idToken(
        of userID: String, nonce: String? = nil, _ access: String? = nil
    ) async -> String {
        let seconds = Int(now.timeIntervalSince1970) - manner.idTokenAge
        let claims = IDClaims(
            iss: manner.issuer ?? Self.address, sub: userID, aud: manner.audience,
            exp: seconds + 300,
            iat: seconds, nonce: nonce.map { manner.nonce ?? $0 },
            at_hash: access.map {
                Base64URL.encode(Data(SHA256.hash(data: Data($0.utf8)).prefix(16)))
            },
            azp: manner.authorizedParty, auth_time: authTimes[userID],
            canReauthenticate: manner.canReauthenticate)
        return (try? await signer.sign(claims)) ?? ""
    }

    private func remove(_ body: String, _ bearer: String?) -> (HTTPResponse, [UInt8]) {
        guard manner.hasRemovalEndpoint else { return empty(404) }
        guard let bearer else { return refuse(401, "invalid_grant", "invalid session") }
        let kid =
            (try? JSONDecoder().decode([String: String].self, from: Data(body.utf8)))?["kid"] ?? ""
        guard identities[kid]?.userID == bearer else {
            let error = [
                "name": "NotFound", "reason": "IdentityNotFound", "message": "identity not found",
            ]
            return json(["error": error], status: 404)
        }
        identities[kid] = nil
        return empty(200)
    }

    // MARK: Helpers

    private func form(_ body: String) -> [String: String] {
        var components = URLComponents()
        components.percentEncodedQuery = body
        let items = components.queryItems ?? []
        return Dictionary(items.map { ($0.name, $0.value ?? "") }) { first, _ in first }
    }

    private func json(_ object: Any, status: Int = 200) -> (HTTPResponse, [UInt8]) {
        let bytes = (try? JSONSerialization.data(withJSONObject: object)).map(Array.init) ?? []
        return (
            HTTPResponse(
                status: .init(code: status), headerFields: [.contentType: "application/json"]),
            bytes
        )
    }

    private func text(_ text: String) -> (HTTPResponse, [UInt8]) {
        (HTTPResponse(status: .ok), Array(text.utf8))
    }

    private func empty(_ status: Int) -> (HTTPResponse, [UInt8]) {
        (HTTPResponse(status: .init(code: status)), [])
    }

    private func refuse(_ status: Int, _ error: String, _ description: String?) -> (
        HTTPResponse, [UInt8]
    ) {
        json(["error": error, "error_description": description], status: status)
    }

    private static func s256(_ verifier: String) -> String {
        Base64URL.encode(Data(SHA256.hash(data: Data(verifier.utf8))))
    }

    private static func httpDate(_ date: Date) -> String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = .gmt
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: date)
    }
}
