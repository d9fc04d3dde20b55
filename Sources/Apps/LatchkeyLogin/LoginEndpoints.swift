internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

/// The endpoints of an identity server as calls.
struct LoginEndpoints: Sendable {
    let client: OAuthClient<LoginErrorCode>
    let device: DeviceInfo

    /// The scopes of every login.
    static let scope = "openid offline_access https://authgear.com/scopes/full-access"
    /// The scopes of a new authentication, which continues the session with its refresh token.
    static let stepUpScope = "openid https://authgear.com/scopes/full-access"

    var metadata: ProviderMetadata { client.metadata }

    /// Proves the key to which the server binds the tokens; nil for none.
    var prover: DPoPProver? { client.connection.prover }

    /// Reads the server's metadata.
    ///
    /// - Throws: ``LoginError`` with code `invalidResponse` when it names another issuer than
    ///   `address`, has no endpoint for a login, or an endpoint at an origin that must not get
    ///   tokens.
    static func discover(
        at address: Endpoint, additionalOrigins: Set<String>,
        over connection: ServerConnection<LoginErrorCode>
    ) async throws(LoginError) -> ProviderMetadata {
        let metadata = try await ProviderMetadata.read(at: address.text, over: connection)
        for required in [ProviderMetadata.EndpointName.authorization, .userInfo, .revocation] {
            guard metadata[required] != nil else {
                throw .invalidResponse("the server's metadata has no ‘\(required.rawValue)’")
            }
        }
        let secret = [
            ProviderMetadata.EndpointName.authorization, .token, .userInfo, .revocation,
            .biometricRemoval,
            .attestation,
        ]
        do throws(MetadataFlaw) {
            try metadata.check(
                secretsGoTo: secret.compactMap { metadata[$0] },
                additionalOrigins: additionalOrigins)
        } catch {
            throw LoginError(.metadata(error))
        }
        return metadata
    }

    // MARK: Biometric

    /// The audience of a biometric request.
    ///
    /// - Parameter key: An enabled key. If the server has required an audience for it before, the
    ///   metadata cannot withdraw that.
    func audience(for key: BiometricKey?) -> SignedLoginRequest.Audience? {
        guard metadata.requiresAudience || key?.requiresAudience == true else { return nil }
        return SignedLoginRequest.Audience(issuer: metadata.issuer, clientID: client.clientID)
    }

    func challenge() async throws(LoginError) -> (LoginChallenge, date: Date?) {
        guard let endpoint = metadata.challenge else {
            throw LoginError(.missingEndpoint(.authorization))
        }
        let response = try await client.connection.post(
            ["purpose": "biometric_request"], to: endpoint
        ).successful()
        return (
            LoginChallenge(
                try response.json(LoginChallenge.Envelope.self).result, date: response.date),
            response.date
        )
    }

    /// Registers the key in `jwt` for the user. The response has no body.
    ///
    /// - Parameter attestation: The proof that the key is in hardware; nil for a server that gets
    ///   none.
    func register(jwt: String, attestation: String?, access: LoginAccessToken)
        async throws(LoginError)
    {
        let proof = attestation.map { [("attestation", $0)] } ?? []
        _ = try await client.requestToken(
            SignedLoginRequest.grantType, [("jwt", jwt)] + proof,
            authorization: access.authorization)
    }

    /// Logs in with the key that signed `jwt`.
    ///
    /// - Returns: The response, with any status. The date of a refusal is needed too.
    func authenticate(jwt: String) async throws(LoginError) -> ServerResponse<LoginErrorCode> {
        try await client.post(
            [
                ("grant_type", SignedLoginRequest.grantType), ("jwt", jwt), ("scope", Self.scope),
                ("x_device_info", try deviceInfo()),
            ], to: .token)
    }

    /// Removes the key from the user's account.
    func removeIdentity(_ id: KeyID, access: LoginAccessToken) async throws(LoginError) {
        let response = try await client.connection.post(
            ["kid": id.rawValue], to: client.endpoint(.biometricRemoval),
            authorization: access.authorization)
        guard !response.isSuccess else { return }
        let refusal = response.refusal
        guard response.status == 404, refusal.serverError?.reason == "IdentityNotFound" else {
            throw LoginError(.refused(refusal))
        }
        throw .identityNotFound(
            "Biometric login is disabled on this device. No further step is necessary.", refusal)
    }

    // MARK: OAuth

    func exchange(_ grant: AuthorizationGrant) async throws(LoginError) -> (
        TokenResponse, date: Date?
    ) {
        let response = try await client.redeem(
            grant.code, verifier: grant.codeVerifier, redirectURI: grant.redirectURI,
            [("x_device_info", try deviceInfo())])
        return (response.tokens(), response.date)
    }

    /// Waits until the user has logged in on any device.
    func exchange(_ authorization: DeviceAuthorization, clock: some Clock<Duration>)
        async throws(LoginError) -> (TokenResponse, date: Date?)
    {
        let response = try await client.redeem(
            authorization, [("x_device_info", try deviceInfo())], clock: clock)
        return (response.tokens(), response.date)
    }

    /// Uses a refresh token. The refresh token of the response must be stored before the response
    /// is checked.
    func refresh(_ token: SecretBytes) async throws(LoginError) -> (TokenResponse, date: Date?) {
        let response = try await client.refresh(token.text, [("x_device_info", try deviceInfo())])
        return (response.tokens(), response.date)
    }

    /// Requests an ID token of the session.
    func idToken(access: LoginAccessToken) async throws(LoginError) -> (String, date: Date?) {
        let response = try await client.requestToken(
            "urn:authgear:params:oauth:grant-type:id-token", [],
            authorization: access.authorization)
        return (try response.json(IDTokenResponse.self).idToken, response.date)
    }

    /// Requests a token that opens the server's pages in a browser once.
    ///
    /// - Throws: ``LoginError`` with code `unsupported` if the server has no such tokens.
    func appSessionToken(_ refreshToken: SecretBytes) async throws(LoginError) -> String {
        guard let endpoint = metadata.appSessionToken else {
            throw LoginError(.missingEndpoint(.authorization))
        }
        let response = try await client.connection.post(
            ["refresh_token": refreshToken.text], to: endpoint, needsProof: true)
        guard ![404, 405].contains(response.status) else {
            throw LoginError(
                code: .unsupported, reason: "the server cannot open its pages for an app's user",
                recovery: "Open the page in the browser, and log in there.",
                details: response.refusal)
        }
        return try response.successful().json(AppSessionToken.Envelope.self).result.token
    }

    func revoke(_ token: SecretBytes) async throws(LoginError) {
        try await client.revoke(token.text, identifiesClient: false)
    }

    /// - Throws: ``LoginError`` with code `invalidResponse` if the claims are about another user.
    func userInfo(of userID: String, access: LoginAccessToken) async throws(LoginError) -> UserInfo
    {
        let user = try await client.userInfo(UserInfo.self, authorization: access.authorization)
        guard user.userID == userID else {
            throw .invalidResponse(
                "the server's user info is of another user: its ‘sub’ is not that of the session",
                recovery: "Show this text to the server's operator.")
        }
        return user
    }

    // MARK: Helpers

    private func deviceInfo() throws(LoginError) -> String {
        do { return try device.formValue() } catch {
            throw .invalidInput("the device's description can't be encoded as JSON")
        }
    }
}

/// The response with an ID token alone.
private struct IDTokenResponse: Decodable {
    let idToken: String

    private enum CodingKeys: String, CodingKey {
        case idToken = "id_token"
    }
}

/// A token that opens the server's pages in a browser once.
private struct AppSessionToken: Decodable {
    let token: String

    private enum CodingKeys: String, CodingKey {
        case token = "app_session_token"
    }

    /// The response body: `{"result": {…}}`.
    struct Envelope: Decodable {
        let result: AppSessionToken
    }
}

/// A one-time challenge from the server.
struct LoginChallenge: Sendable {
    /// The lifetime of a challenge whose expiry the server does not state.
    static let defaultLife: Duration = .seconds(300)

    /// Opaque; 32 characters from current servers.
    let token: String
    /// The lifetime, from the time of receipt.
    let life: Duration
    private let received = ContinuousClock.now

    /// - Parameter date: The server's clock when it sent the challenge.
    init(_ result: Result, date: Date?) {
        token = result.token
        let expiry = result.expiresAt.flatMap(Self.date)
        let seconds = date.flatMap { expiry?.timeIntervalSince($0) }
        life = seconds.map { .seconds(max(0, $0)) } ?? Self.defaultLife
    }

    /// Whether the challenge has expired on the server, measured with a monotonic clock.
    var isExpired: Bool { ContinuousClock.now - received >= life }

    /// RFC 3339, with and without a fraction.
    private static func date(_ text: String) -> Date? {
        (try? Date(text, strategy: .iso8601)) ?? (try? Date(text, strategy: .iso8601.fractional))
    }

    struct Result: Decodable {
        let token: String
        let expiresAt: String?

        private enum CodingKeys: String, CodingKey {
            case token
            case expiresAt = "expire_at"
        }
    }

    /// The response body: `{"result": {…}}`.
    struct Envelope: Decodable {
        let result: Result
    }
}

extension Date.ISO8601FormatStyle {
    fileprivate var fractional: Date.ISO8601FormatStyle {
        Date.ISO8601FormatStyle(includingFractionalSeconds: true)
    }
}
