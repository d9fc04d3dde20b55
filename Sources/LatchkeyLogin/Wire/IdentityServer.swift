internal import FoundationEssentials
internal import HTTPTypes
internal import Latchkey
internal import LatchkeyOAuth

/// The server's endpoints as calls. One value serves one operation, whose name its errors carry.
struct IdentityServer: Sendable {
    let operation: String
    let clientID: String
    let device: DeviceInfo
    let document: DiscoveryDocument
    let wire: Wire

    /// What is asked for at every login.
    static let scope = "openid offline_access https://authgear.com/scopes/full-access"

    // MARK: Biometric

    /// What a biometric request names as its audience.
    ///
    /// - Parameter key: An enabled key. Once the server has required an audience for it, a discovery document that no
    ///   longer says so changes nothing.
    func audience(for key: BiometricKey?) -> BiometricRequest.Audience? {
        guard document.requiresAudience || key?.requiresAudience == true else { return nil }
        return BiometricRequest.Audience(issuer: document.issuer, clientID: clientID)
    }

    func challenge() async throws(LoginError) -> (Challenge, date: Date?) {
        let body = try encode(Challenge.Request())
        let request = document.challenge.request(.post, [.contentType: "application/json"])
        let response = try await wire.success(request, body, operation)
        let envelope = try response.json(Challenge.Envelope.self, operation)
        return (Challenge(envelope.result, date: response.date), response.date)
    }

    /// Adds the key in `jwt` to the user. The answer has no body.
    func setUp(jwt: String, access: AccessToken) async throws(LoginError) {
        let fields = [("client_id", clientID), ("grant_type", BiometricRequest.grantType), ("jwt", jwt)]
        _ = try await wire.success(form(document.token, access: access), Self.body(fields), operation)
    }

    /// Logs in with the key that signed `jwt`.
    ///
    /// - Returns: The answer, whatever its status: its date matters when it is a refusal.
    func authenticate(jwt: String) async throws(LoginError) -> ServerResponse {
        let fields = [
            ("client_id", clientID), ("grant_type", BiometricRequest.grantType), ("jwt", jwt), ("scope", Self.scope),
            ("x_device_info", try deviceInfo()),
        ]
        return try await wire.exchange(form(document.token), Self.body(fields), operation)
    }

    /// Takes the key away from the user.
    func removeIdentity(_ id: KeyID, at endpoint: Endpoint, access: AccessToken) async throws(LoginError) {
        var request = endpoint.request(.post, [.contentType: "application/json"])
        request.headerFields[.authorization] = "Bearer \(access.value)"
        let response = try await wire.exchange(request, encode(Removal(kid: id.rawValue)), operation)
        guard !response.isSuccess else { return }
        let failure = response.failure(operation)
        guard response.status == 404, failure.serverError?.reason == "IdentityNotFound" else { throw failure }
        throw .identityNotFound(
            operation, "Biometric login is disabled on this device; there is nothing more to do.",
            serverError: failure.serverError, httpStatus: response.status)
    }

    // MARK: OAuth

    func exchange(_ grant: AuthorizationGrant) async throws(LoginError) -> (TokenResponse, date: Date?) {
        let fields = [
            ("client_id", clientID), ("grant_type", "authorization_code"), ("code", grant.code),
            ("redirect_uri", grant.redirectURI), ("code_verifier", grant.codeVerifier),
            ("x_device_info", try deviceInfo()),
        ]
        let response = try await wire.success(form(document.token), Self.body(fields), operation)
        return (try response.json(TokenResponse.self, operation), response.date)
    }

    func refresh(_ token: SecretBytes) async throws(LoginError) -> TokenResponse {
        let fields = [
            ("client_id", clientID), ("grant_type", "refresh_token"), ("refresh_token", token.text),
            ("x_device_info", try deviceInfo()),
        ]
        return try await wire.success(form(document.token), Self.body(fields), operation)
            .json(TokenResponse.self, operation)
    }

    func revoke(_ token: SecretBytes) async throws(LoginError) {
        _ = try await wire.success(form(document.revocation), Self.body([("token", token.text)]), operation)
    }

    func userInfo(access: AccessToken) async throws(LoginError) -> UserInfo {
        let request = document.userInfo.request(.get, [.authorization: "Bearer \(access.value)"])
        return try await wire.success(request, [], operation).json(UserInfo.self, operation)
    }

    func keys() async throws(LoginError) -> JWKSet {
        try await wire.success(document.keys.request(.get), [], operation).json(JWKSet.self, operation)
    }

    /// The claims of an ID token that came straight from the server.
    func claims(of idToken: String, now: Date, serverDate: Date?) throws(LoginError) -> IDToken {
        do throws(IDTokenFlaw) {
            return try IDTokenVerifier(issuer: document.issuer, clientID: clientID)
                .checkClaims(idToken, now: now, serverDate: serverDate)
        } catch {
            throw LoginError(operation, error)
        }
    }

    // MARK: Helpers

    private struct Removal: Encodable {
        let kid: String
    }

    private func form(_ endpoint: Endpoint, access: AccessToken? = nil) -> HTTPRequest {
        var request = endpoint.request(.post, [.contentType: "application/x-www-form-urlencoded"])
        if let access { request.headerFields[.authorization] = "Bearer \(access.value)" }
        return request
    }

    private static func body(_ fields: [(name: String, value: String)]) -> [UInt8] {
        Array(FormEncoding.encode(fields).utf8)
    }

    private func encode(_ value: some Encodable) throws(LoginError) -> [UInt8] {
        do {
            return Array(try JSONEncoder().encode(value))
        } catch {
            throw .invalidInput(operation, "a request can't be written as JSON")
        }
    }

    private func deviceInfo() throws(LoginError) -> String {
        do {
            return try device.formValue()
        } catch {
            throw .invalidInput(operation, "the device's description can't be written as JSON")
        }
    }
}
