import Foundation
import HTTPTypes
import Latchkey
import LatchkeyCredentials

// The second column of PortingFromAuthFoundation.

private func start(records: RecordContainer, presence: any PresenceAuthority) async throws {
    let transport: any HTTPTransport = CurlTransport(timeout: 30)
    let store = CredentialStore(
        records: records, presence: presence, transport: transport,
        configuration: CredentialConfiguration(graceInterval: 300))
    try await CredentialStore.bootstrap(store)
    for await event in store.events {
        if case .claimsNotCopied = event { return }
    }
}

private func keep(_ response: Data, in records: RecordContainer) async throws -> Credential {
    let token = try Token(
        response: response,
        context: Token.Context(
            issuer: "https://id.example", clientID: "app", clientSecret: nil, boundTo: nil),
        id: "first", receivedAt: Date())
    let policies: [AccessPolicy] = [
        .none, .pin, .userPresence, .biometryAny, .biometryCurrentSet,
    ]
    let credential = try await Credential.store(
        token: token, tags: ["service": "purchase"], security: policies[2],
        reason: "keep your login")
    Credential.default = credential
    return credential
}

private func find(_ token: Token) throws -> [Credential] {
    let isPurchase: (CredentialAttributes) -> CredentialQuery = { $0.tags["service"] == "purchase" }
    let isStaff: (CredentialAttributes) -> CredentialQuery = { $0["groups"].contains("staff") }
    let isJane: (Token.Metadata) throws -> Bool = { $0.id == "first" && $0.tags.isEmpty }
    return try Credential.find(where: isPurchase, prompt: "buy") + Credential.find(where: isStaff)
        + Credential.find(where: isJane) + Credential.allCredentials
        + Credential.allIDs.compactMap { try Credential.with(id: $0, prompt: "buy") }
        + [Credential.with(token: token)] + [Credential.default].compactMap { $0 }
}

private func use(_ credential: Credential, _ request: inout HTTPRequest) async throws {
    credential.automaticRefresh = true
    try await credential.refreshIfNeeded(graceInterval: 300, reason: "buy")
    try await credential.refresh(reason: "buy")
    _ = try await credential.token(reason: "buy").token(of: .refreshToken)
    try credential.setTags(credential.tags)
    try await credential.authorize(&request, nonce: nil, reason: "buy")
    let info: Credential.UserInfo = try await credential.userInfo()
    let kinds: [Token.Kind] = [.accessToken, .refreshToken, .deviceSecret]
    let answer: TokenIntrospection = try await credential.introspect(kinds[0])
    print(credential.id, info.claims.count, answer.isActive, answer.claims["username"] ?? "")
    let types: [Credential.RevokeType] = [.accessToken, .refreshToken, .deviceSecret, .all]
    try await credential.revoke(type: types[3])
    try credential.remove()
}

private func observe() -> [any NSObjectProtocol] {
    let names: [Notification.Name] = [
        .defaultCredentialChanged, .credentialCreated, .credentialRemoved, .tokenRefreshed,
        .tokenRefreshFailed, .credentialStorageFailed,
    ]
    return names.map {
        NotificationCenter.default.addObserver(forName: $0, object: nil, queue: .main) { _ in }
    }
}

private func texts(of token: Token) -> [String?] {
    let isExpired = token.isExpired(at: Date())
    let since = token.issuedAt
    return [
        token.id, token.tokenType, token.accessToken, token.scope, token.refreshToken,
        token.deviceSecret, token.context.issuer, token.context.clientID,
        "\(isExpired) \(since) \(String(describing: token.expiresIn))",
        token.expiresAt.map { "\($0)" },
    ] + texts(of: token) + (token.idToken.map(texts) ?? [])
}

private func texts(of token: JWT) -> [String?] {
    [
        token.rawValue, token.issuer, "\(token.audience)",
        "\(String(describing: (token.expirationTime, token.issuedAt)))",
    ]
}

private func texts(of info: some HasClaims) -> [String?] {
    let names: [ClaimName] = [
        .issuer, .subject, .audience, .name, .givenName, .familyName, .middleName, .nickname,
        .preferredUsername, .profile, .picture, .website, .email, .emailVerified, .gender,
        .birthdate, .zoneinfo, .locale, .phoneNumber, .phoneNumberVerified, .address,
        .updatedAt, .expirationTime, .notBefore, .issuedAt, .jwtId, .authorizedParty, .nonce,
        .authTime, .authContextClassReference, .authMethodsReference, .sessionId, .scope, .clientId,
        .roles, .groups, .entitlements,
    ]
    let zone = info.zoneinfo.flatMap(TimeZone.init(identifier:))
    let methods: [String]? = info[.authMethodsReference]
    let time: Date? = info[.authTime]
    let role: Role? = try? info.value(for: "role")
    let street = info[.address]?.object?["street_address"]?.string
    return names.map { info[$0]?.string } + [
        info.subject, info.name, info.preferredUsername, info.email, info.givenName,
        info.familyName, info.locale, street,
        "\(String(describing: (info.updatedAt, info.emailVerified, zone, methods, time, role))) \(info.claims.keys)",
    ]
}

private struct Role: ClaimConvertable {
    static func convert(from value: JSONValue) -> Role? { value.string.map { _ in Role() } }
}

private func verify(_ text: String, with client: OAuth2Client) async throws -> Bool {
    let token = try JWT(text)
    let keys: JWKS = try await client.jwks()
    let key: JWK? = keys.keys.first
    guard try key?.verify(token: token) == true else { return try token.validate(using: keys) }
    let configuration: OpenIdConfiguration = try await client.openIdConfiguration()
    let url: URL? = configuration["end_session_endpoint"]
    print(
        configuration.issuer, String(describing: configuration.tokenEndpoint),
        configuration.claims.count, url as Any)
    return configuration.authorizationEndpoint != nil
}

private func migrate() throws { try Migration.migrateIfNeeded() }

private func useClient(_ credential: Credential, in store: CredentialStore) async throws -> Token {
    let client = try OAuth2Client(issuer: "https://id.example", clientID: "app", clientSecret: nil)
    let pkce = PKCE()
    print(pkce.codeChallenge, credential.isRefreshing)
    let first = try await client.exchange(
        authorizationCode: "c", issuer: nil, codeVerifier: pkce.codeVerifier,
        redirectURI: "app:/callback", nonce: "n", boundTo: nil)
    let token = try await Token.from(
        refreshToken: first.refreshToken ?? "", using: client, boundTo: nil)
    try await store.validate(token, nonce: "n", code: "c", maximumLoginAge: 60)
    print(try client.issuer, try client.clientID)
    print(try await client.userInfo(token: token), try credential.oauth2.clientID)
    print(try await client.introspect(token: token, type: .accessToken).isActive)
    try await client.revoke(token, type: .all)
    return try await client.refresh(token)
}

private func texts(of error: CredentialError) -> [String?] {
    let kind =
        switch error.code as CredentialErrorCode {
        case .oauthError, .unexpectedStatus, .invalidResponse, .invalidToken: "ask for help"
        case .network: "try again"
        case .signInAgain, .missingToken, .notFound: "log in again"
        case .duplicate, .invalidInput, .notConfigured, .refused, .unsupported:
            "an error of this app"
        default: error.reason
        }
    let answer: OAuth2Error? = error.oauthError
    return [
        kind, error.recovery, error.httpStatus.map(String.init), answer?.error,
        answer?.description, error.underlying?.text,
    ]
}

private func isLost(_ error: KeystoreError) -> Bool {
    switch error.code as CommonErrorCode {
    case .notFound, .damaged: true
    default: false
    }
}

/// A value of the app in the place of an item of the Keychain.
private func useRecords(
    _ records: RecordContainer, _ changes: [RecordChange], _ id: RecordID,
    _ prompt: PromptContext, _ presence: any PresenceAuthority
) async throws {
    _ = try await records.apply(changes, for: prompt, authorizedBy: presence)
    _ = try await records.read(id, for: prompt, authorizedBy: presence)
}
