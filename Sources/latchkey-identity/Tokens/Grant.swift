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
    /// The device that it was made with; nil for a login in the browser.
    let deviceID: String?
    /// Space-separated.
    let scope: String
    /// How the user was authenticated: `x_biometric`; nil for a password.
    let amr: String?
    /// Seconds since 1970, as the other times.
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
        case authTime = "auth_time"
        case expiresAt = "expires_at"
        case idleExpiresAt = "idle_expires_at"
        case deviceInfo = "device_info"
    }

    var scopes: Set<String> { Set(scope.split(separator: " ").map(String.init)) }

    /// The claim `sid`.
    var sessionID: String { Base64URL.encode(Data("offline_grant:\(id)".utf8)) }
}
