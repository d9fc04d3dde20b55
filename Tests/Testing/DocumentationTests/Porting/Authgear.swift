import HTTPTypes
import Latchkey
import LatchkeyLogin

// The second column of PortingFromAuthgear.

private func makeContainer(
    store: RecordStore, keystore: any Keystore, presence: any PresenceAuthority,
    transport: any HTTPTransport
) throws -> Container {
    let storages: [TokenStorage] = [.persistent, .memory]
    return try Container(
        ContainerConfiguration(
            endpoint: "https://id.example", clientID: "app", tokenStorage: storages[0],
            policy: .userPresence),
        records: RecordContainer(name: "default", store: store, keystore: keystore),
        presence: presence, browser: SystemBrowser(environment: [:], message: { _ in }),
        transport: transport)
}

private func makeTransport() -> CurlTransport { CurlTransport(timeout: 30) }

private struct Pages: Browser {
    func open(_ url: String) async throws {}
    func show(_ notice: String) {}
}

private func observe(_ container: Container) async throws -> SessionState? {
    for await change in try await container.changes() {
        let reason: SessionStateChange.Reason = change.reason
        switch reason {
        case .noToken, .foundToken: return change.state
        case .authenticated: return .authenticated
        case .logout, .invalid, .clear: return .noSession
        }
    }
    return try await container.sessionState
}

private func logIn(_ container: Container) async throws -> UserInfo {
    let prompts: [AuthorizationOptions.Prompt] = [.none, .login, .consent, .selectAccount]
    let pages: [AuthorizationOptions.Page] = [.login, .signup]
    let schemes: [AuthorizationOptions.ColorScheme] = [.light, .dark]
    let hints: [LoginHint] = [.username("jane"), .email("jane@id.example"), .phone("+43155511")]
    let options = AuthorizationOptions(
        prompt: [prompts[1]], loginHint: hints[0], page: pages[0], uiLocales: ["de-AT", "en"],
        colorScheme: schemes[1], timeout: .seconds(300))
    let info = try await container.authorize(options, reason: "open your account").userInfo
    if try await container.canReauthenticate {
        try await container.refreshIDToken()
        try await container.reauthenticate(
            ReauthenticationOptions(
                maximumAge: .zero, usesBiometric: true, reason: "confirm the payment",
                authorization: options))
        _ = try await (container.authTime, container.idTokenHint)
    }
    return info
}

private func useBiometric(_ container: Container) async throws {
    let policies: [AccessPolicy] = [.biometryAny, .biometryCurrentSet, .userPresence, .pin]
    guard await container.isBiometricAvailable(),
        await container.biometricAvailability(under: policies[2]) == .available
    else { return }
    if try await container.isBiometricEnabled() {
        try await container.authenticateBiometric(reason: "open your account")
    } else {
        try await container.enabledBiometric()
        try await container.enableBiometric(
            policy: policies[2], replacing: true, reason: "open your account next time")
    }
    let user = try await container.listBiometricKeys().first?.userID
    if try await container.getLastUserID() != user, try await container.lastUserID != user {
        try await container.disableBiometric(force: false)
    }
}

private func useSession(_ container: Container, _ request: inout HTTPRequest) async throws {
    try await container.refreshAccessTokenIfNeeded()
    print(container.name, try await container.accessToken)
    try await container.authorizeRequest(&request, nonce: nil)
    let pages: [SettingsPage] = [.settings, .biometric, .identities]
    try await container.open(
        page: pages[0], uiLocales: ["de-AT"], colorScheme: .dark, timeout: .seconds(600))
    try await container.logout(keepBiometric: true, force: false)
    try await container.clear()
}

private func texts(of container: Container) async throws -> [String?] {
    let user: UserInfo = try await container.fetchUserInfo()
    let flags = [user.isAnonymous, user.isVerified, user.canReauthenticate]
    let authenticators = user.claims["https://authgear.com/claims/user/authenticators"]?.array
    let kind: JSONValue? = authenticators?.first?.object?["kind"]
    return [
        user.userID, user.name, user.preferredUsername, user.email, "\(flags)", kind?.string,
        user.claims["family_name"]?.string, user.claims["address"]?["street_address"]?.string,
    ]
}

private func texts(of error: LoginError) -> [String?] {
    let kind =
        switch error.code as LoginErrorCode {
        case .cancelled, .timedOut: "the login was cancelled"
        case .notEnabled, .identityNotFound: "set up biometric login again"
        case .unauthenticated, .cannotReauthenticate: "log in"
        case .oauthError, .serverError, .unexpectedStatus, .invalidToken: "ask for help"
        default: error.reason
        }
    let answer: OAuthError? = error.oauthError
    let refusal: ServerError? = error.serverError
    return [
        kind, error.recovery, error.underlying?.text, error.httpStatus.map(String.init),
        answer?.error, answer?.description, answer?.uri,
        refusal?.name, refusal?.message, refusal?.reason,
    ]
}

private func text(of error: KeystoreError) -> String {
    switch error.code as CommonErrorCode {
    case .cancelled: "nothing was changed"
    case .unsupported, .unavailable: "this machine cannot verify you"
    case .passcodeNotSet, .notEnrolled: "set up a PIN or a finger"
    case .lockedOut: error.lockedOutUntil.map { "wait until \($0)" } ?? "locked"
    case .invalidated: "your fingers have changed"
    default: error.reason
    }
}
