import LatchkeyLogin

/// The operations of a container that use a server.
enum ContainerOperation: CaseIterable {
    case authorize, enable, replace, authenticate, disable, logout, logoutKeepingKey, refresh,
        accessToken, userInfo, reauthenticate, reauthenticateInBrowser, refreshIDToken, openPage

    func run(_ container: Container) async throws {
        switch self {
        case .authorize: try await container.authorize()
        case .enable: try await container.enableBiometric()
        case .replace: try await container.enableBiometric(replacing: true)
        case .authenticate: try await container.authenticateBiometric()
        case .disable: try await container.disableBiometric()
        case .logout: try await container.logout()
        case .logoutKeepingKey: try await container.logout(keepBiometric: true)
        case .refresh: try await container.refreshAccessTokenIfNeeded()
        case .accessToken: _ = try await container.accessToken
        case .userInfo: _ = try await container.fetchUserInfo()
        case .reauthenticate: try await container.reauthenticate()
        case .reauthenticateInBrowser:
            try await container.reauthenticate(.init(usesBiometric: false))
        case .refreshIDToken: try await container.refreshIDToken()
        case .openPage: try await container.open(page: .settings)
        }
    }
}
