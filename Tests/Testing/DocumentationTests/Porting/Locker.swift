import Latchkey
import LatchkeyLocker

// The second column of PortingFromLocker.

private struct Log: Logger {
    func handleLogMessage(_ message: String, level: LogLevel) {}
}

private func start(
    records: RecordContainer, presence: any PresenceAuthority, browser: any Browser
) async throws -> Locker {
    let channel: any StrongAuthenticationChannel = BrowserChannel(browser)
    let policy: AccessPolicy = .pin
    return try await ErsteGroupAuth.shared.initializeLocker(
        LockerConfiguration(
            issuer: "https://id.example", clientID: "app", records: records, presence: presence,
            channel: channel, easyAccessPolicy: policy, logger: Log()))
}

private func text(of status: AuthSessionStatus) -> String {
    let token: AccessToken? = status.accessToken
    if status.isActive { return token?.value ?? "" }
    return switch status.phase as SessionPhase {
    case .unregistered: "register"
    case .enrolled: "log in"
    case .activeViaStrongAuth, .activeViaEasyAccess: "active"
    case .backgroundAccess, .verifiedOffline: "read only"
    }
}

@MainActor private func use(_ locker: Locker, presence: any PresenceAuthority) throws {
    guard !locker.isUserInteractionInProgress() else {
        return locker.dismissUI(callback: { status, _ in print(text(of: status)) })
    }
    let level: RequiredLevel = .easyAccess
    let options = StartAuthSessionOptions(
        requiredLevel: level, usesCachedSecret: true, presence: presence,
        channel: { _ in AuthorizationCode(code: "c", codeVerifier: "v") })
    let show: @MainActor (AuthSessionStatus, ErsteGroupAuthError?) -> Void = { _, _ in }
    let showAccess: @MainActor (AuthSessionStatus, BackgroundAccessError?) -> Void = { _, _ in }
    locker.startAuthSession(options: options, metadata: ["page": 1], callback: show)
    locker.backgroundAccess(metadata: nil, callback: showAccess)
    locker.enableEasyAccess(callback: show)
    locker.changeEasyAccess(callback: show)
    locker.disableEasyAccess(callback: show)
    let levels: [ProtectionLevel] = [.active, .offline, .background, .base]
    let sealed = try locker.encrypt(secret: "note", protectionLevel: levels[0])
    print(try locker.decrypt(encryptedSecret: sealed), locker.getAuthSessionStatus())
    let modes: [EndAuthMode] = [.lock, .destroy]
    locker.endAuthSession(mode: modes[0], callback: show)
}
