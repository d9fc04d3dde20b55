import Latchkey
import LatchkeyLocker

/// Encrypts a note for active sessions. Each session requires the PIN, and the first one a login in
/// the browser.
func seal(
    _ note: String, in records: RecordContainer, issuer: String, clientID: String,
    presence: any PresenceAuthority,
    browser: any Browser
) async throws -> String {
    let locker = try await ErsteGroupAuth.shared.initializeLocker(
        LockerConfiguration(
            issuer: issuer, clientID: clientID, records: records, presence: presence,
            channel: BrowserChannel(browser), offlineVerification: OfflineVerification()))
    let status = try await locker.startAuthSession()
    // Without a network the PIN leads to `verifiedOffline`, which opens the level `offline`.
    let sealed = try locker.encrypt(
        secret: note, protectionLevel: status.isActive ? .active : .offline)
    try await locker.endAuthSession(mode: .lock)
    return sealed
}
