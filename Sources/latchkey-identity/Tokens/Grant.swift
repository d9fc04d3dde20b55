import FoundationEssentials
import GRDB
import Latchkey

/// One login of one user in one client, with all the tokens that come from it.
struct Grant: Sendable, Codable, FetchableRecord, PersistableRecord {
    static let databaseTableName = "offline_grant"

    /// A random UUID in lower case; the first part of the refresh token.
    let id: String
    let clientID: String
    let userID: String
    /// The device that it was made with, for a biometric login.
    let deviceID: String?
    /// The enrolment that it came of, and ends with, for easy and background access.
    let enrolmentID: String?
    /// The name of the enrolment's key that it came of, and ends with, for easy access.
    let easyAccessKeyID: String?
    /// Space-separated.
    let scope: String
    /// How the user was authenticated; nil for a password.
    let amr: DeviceAuthentication?
    /// When the user was authenticated; a refresh leaves it. Seconds since 1970, as the other times.
    let authTime: Double
    let expiresAt: Double
    let idleExpiresAt: Double
    /// The JSON that the client sent as `x_device_info`.
    let deviceInfo: String?

    enum CodingKeys: String, CodingKey {
        case id, scope, amr
        case clientID = "client_id"
        case userID = "user_id"
        case deviceID = "device_id"
        case enrolmentID = "enrolment_id"
        case easyAccessKeyID = "easy_access_kid"
        case authTime = "auth_time"
        case expiresAt = "expires_at"
        case idleExpiresAt = "idle_expires_at"
        case deviceInfo = "device_info"
    }

    var scopes: Set<String> { Set(scope.split(separator: " ").map(String.init)) }

    var hasFullAccess: Bool { scopes.contains(Scope.fullAccess) }

    /// Whether somebody was there when the session began, and not the device alone.
    var hasUser: Bool { amr != .background }

    /// Whether the session began with strong authentication: the user logged in on this server's own page.
    var isStrong: Bool { amr == nil }

    /// The claim `sid`.
    var sessionID: String { Base64URL.encode(Data("offline_grant:\(id)".utf8)) }
}
