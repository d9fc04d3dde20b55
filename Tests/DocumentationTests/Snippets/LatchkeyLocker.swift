import Latchkey
import LatchkeyLocker

/// Encrypts a note so that it opens in active sessions alone: each takes the PIN, the first one a login in the browser.
func seal(
    _ note: String, in records: RecordContainer, issuer: String, clientID: String, presence: any PresenceAuthority,
    browser: any Browser
) async throws -> String {
    let locker = try await ErsteGroupAuth.shared.initializeLocker(
        LockerConfiguration(
            issuer: issuer, clientID: clientID, records: records, presence: presence,
            channel: BrowserChannel(browser), offlineVerification: OfflineVerification()))
    let status = try await locker.startAuthSession()
    // Without a network the PIN leads to `verifiedOffline`, where other data opens.
    let sealed = try locker.encrypt(secret: note, protectionLevel: status.isActive ? .active : .offline)
    try await locker.endAuthSession(mode: .lock)
    return sealed
}
