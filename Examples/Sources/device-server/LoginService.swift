import Foundation
import Hummingbird
import Latchkey
import LatchkeyRelyingParty

/// The endpoints: OpenID Connect with PKCE for the browser, and Latchkey's login with a device.
struct LoginService: Sendable {
    private static let user = "alice"
    private static let biometric = "urn:authgear:params:oauth:grant-type:biometric-request"

    let issuer: String
    private let password: String
    private let challenges: DatabaseChallengeStore
    private let devices: DatabaseDeviceRegistry
    private let sessions: Sessions

    init(issuer: String, password: String, database: any SQLDatabase) {
        self.issuer = issuer
        self.password = password
        challenges = DatabaseChallengeStore(database)
        devices = DatabaseDeviceRegistry(database, project: "example")
        sessions = Sessions(issuer: issuer)
    }

    func router() -> Router<BasicRequestContext> {
        let router = Router()
        router.add(middleware: OAuthErrors())
        router.get("/.well-known/openid-configuration") { _, _ in try json(discovery) }
        router.get("/jwks") { _, _ in try json(["keys": [sessions.publicKey]]) }
        router.get("/authorize") { request, _ in try loginPage(request) }
        router.post("/authorize") { request, _ in try await logIn(request) }
        router.post("/oauth2/challenge") { request, _ in try await challenge(request) }
        router.post("/token") { request, _ in try await token(request) }
        router.get("/userinfo") { request, _ in
            try await json(["sub": session(of: request).user])
        }
        router.post("/revoke") { request, _ in
            await sessions.end(refreshToken: try await form(request)["token"] ?? "")
            return Response(status: .ok)
        }
        router.post("/remove") { request, _ in try await remove(request) }
        return router
    }

    private var discovery: [String: Value] {
        let endpoints = [
            "authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/jwks",
            "userinfo_endpoint": "/userinfo", "revocation_endpoint": "/revoke",
            "biometric_removal_endpoint": "/remove",
        ]
        return endpoints.mapValues { .text(issuer + $0) }.merging([
            "issuer": .text(issuer), "biometric_audience_required": .flag(true),
            "authorization_response_iss_parameter_supported": .flag(true),
        ]) { $1 }
    }

    // MARK: The browser

    private func loginPage(_ request: Request) throws -> Response {
        _ = try AuthorizationRequest(request.uri.queryParameters)
        // The form is posted to this URL, so the server checks the same parameters again.
        let page = """
            <!doctype html><title>Log in</title><form method="post">
            <label>Password of \(Self.user) <input name="password" type="password"></label>
            <button>Log in</button></form>
            """
        return Response(
            status: .ok,
            headers: [
                .contentType: "text/html; charset=utf-8",
                .contentSecurityPolicy: "default-src 'none'; frame-ancestors 'none'",
            ],
            body: ResponseBody(byteBuffer: ByteBuffer(string: page)))
    }

    private func logIn(_ request: Request) async throws -> Response {
        let authorization = try AuthorizationRequest(request.uri.queryParameters)
        guard await sessions.admitsPassword(), try await form(request)["password"] == password
        else {
            throw OAuthError(
                status: 403, "access_denied", "the password is wrong, or wait a minute")
        }
        let code = await sessions.code(for: authorization, user: Self.user)
        var location = URLComponents(string: authorization.redirectURI)
        location?.queryItems = [
            URLQueryItem(name: "code", value: code), URLQueryItem(name: "iss", value: issuer),
            URLQueryItem(name: "state", value: authorization.state),
        ]
        return Response(status: .seeOther, headers: [.location: location?.string ?? issuer])
    }

    // MARK: Tokens

    /// A challenge is valid for one purpose. This server has requests of one kind only.
    private func challenge(_ request: Request) async throws -> Response {
        let body = try await request.body.collect(upTo: 4_096)
        guard let names = try? JSONDecoder().decode([String: String].self, from: body),
            let purpose = names["purpose"].flatMap(ChallengePurpose.init),
            purpose == .biometricRequest
        else { throw OAuthError.invalidRequest("the purpose is not supported") }
        let challenge = try await challenges.issue(purpose)
        return try json([
            "result": [
                "token": challenge.token, "expire_at": challenge.expiresAt.formatted(.iso8601),
            ]
        ])
    }

    private func token(_ request: Request) async throws -> Response {
        let bearer = request.headers[.authorization]
        let form = try await form(request)
        guard let clientID = form["client_id"], clientID == AuthorizationRequest.client else {
            throw OAuthError(status: 401, "invalid_client", "the client is unknown")
        }
        switch form["grant_type"] {
        case "authorization_code":
            return try json(
                await sessions.redeem(
                    code: form["code"] ?? "", verifier: form["code_verifier"] ?? "",
                    redirectURI: form["redirect_uri"] ?? ""))
        case "refresh_token":
            return try json(await sessions.refresh(form["refresh_token"] ?? ""))
        case Self.biometric:
            let request = try BiometricRequest(form["jwt"] ?? "")
            let audience = BiometricAudience(issuer: issuer, clientID: clientID)
            let verifier = BiometricRequestVerifier(challenges: challenges, devices: devices)
            switch request.action {
            case .setup:
                let user = try await sessions.session(bearer: bearer).user
                let proof = try await verifier.verifySetup(request, for: audience)
                try await devices.add(
                    RegisteredDevice(
                        kid: proof.kid, userID: user, key: proof.key, info: proof.info,
                        createdAt: Date()))
                return Response(status: .ok)
            case .authenticate:
                let device = try await verifier.verifyAuthentication(request, for: audience)
                return try json(await sessions.begin(user: device.userID, device: device.kid))
            }
        default: throw OAuthError("unsupported_grant_type", "the grant type is not supported")
        }
    }

    private func remove(_ request: Request) async throws -> Response {
        let user = try await session(of: request).user
        let body = try await request.body.collect(upTo: 4_096)
        let names = try JSONDecoder().decode([String: String].self, from: body)
        guard let kid = names["kid"].flatMap(KeyID.init),
            try await devices.remove(kid: kid, of: user) != nil
        else {
            let error: [String: Value] = [
                "name": .text("NotFound"), "reason": .text("IdentityNotFound"),
                "message": .text("identity not found"), "code": .number(404),
            ]
            return try json(["error": error], status: .notFound)
        }
        await sessions.end(device: kid)
        return Response(status: .ok)
    }

    private func session(of request: Request) async throws -> Session {
        try await sessions.session(bearer: request.headers[.authorization])
    }

    private func form(_ request: Request) async throws -> [String: String] {
        let body = String(buffer: try await request.body.collect(upTo: 65_536))
        // The setter of `percentEncodedQuery` ends the process for text that is not encoded.
        guard
            let form = URLComponents(
                string: "?" + body.replacing("+", with: "%20"), encodingInvalidCharacters: false)
        else { throw OAuthError.invalidRequest("the body is not a form") }
        let fields = (form.queryItems ?? []).map { ($0.name, $0.value ?? "") }
        return try Dictionary(fields) { _, _ in
            throw OAuthError.invalidRequest("a parameter is repeated")
        }
    }
}

/// Answers with JSON.
private func json(_ body: some Encodable, status: HTTPResponse.Status = .ok) throws -> Response {
    Response(
        status: status, headers: [.contentType: "application/json", .cacheControl: "no-store"],
        body: ResponseBody(byteBuffer: ByteBuffer(data: try JSONEncoder().encode(body))))
}

/// Answers errors of OAuth and of the verifier as OAuth does (RFC 6749 section 5.2).
private struct OAuthErrors<Context: RequestContext>: RouterMiddleware {
    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        let error: OAuthError
        do { return try await next(request, context) } catch let refusal as OAuthError {
            error = refusal
        } catch let refusal as BiometricRequestError {
            error = refusal.oauthError
        } catch let failure as SQLFailure where failure.isTemporary {
            // The client can repeat the request later (RFC 9110 section 15.6.4).
            error = OAuthError(
                status: 503, "temporarily_unavailable", "the database is not available")
        }
        var response = try json(
            ["error": error.error, "error_description": error.description],
            status: HTTPResponse.Status(code: error.status))
        if error.status == 503 { response.headers[.retryAfter] = "5" }
        return response
    }
}
