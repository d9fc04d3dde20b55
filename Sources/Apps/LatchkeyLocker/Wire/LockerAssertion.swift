internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyJOSE
internal import LatchkeyOAuth

/// The JWS with which a key in the device's hardware authenticates one request: see
/// <doc:LockerProtocol>.
struct LockerAssertion: Sendable {
    enum Action: String, Encodable, Sendable {
        case enrol
        case easyAccessEnable = "easy-access-enable"
        case easyAccessDisable = "easy-access-disable"
        case easyAccess = "easy-access"
        case backgroundAccess = "background-access"
        case levelShares = "level-shares"
        case revoke

        /// Whether the header contains the public key.
        var hasKey: Bool { self == .enrol || self == .easyAccessEnable }
        /// Whether the assertion has an `exp`.
        var expires: Bool { self != .revoke }
    }

    /// The JOSE `typ`.
    static let type = "vnd.latchkey.locker-request"
    /// The time from `iat` to `exp`, in seconds. The server allows 300 seconds of clock difference
    /// either way.
    static let life = 60
    /// The maximum size of an app's metadata, in bytes of JSON.
    static let maximumMetadataBytes = 4096

    let action: Action
    let issuer: String
    /// nil in `enrol`.
    let enrolmentID: String?
    /// nil in `revoke`.
    let challenge: String?
    let key: HardwareKey
    let issuedAt: Date
    var metadata: [String: JSONValue]?
    var device: DeviceInfo?
    /// Only in `easyAccessDisable`: the key to remove; nil for all.
    var easyAccessKey: KeyID?

    /// The text that the device key signs to approve an assertion of another key. It has a colon,
    /// which a JWS signing input can't have.
    static func countersigningInput(of compact: String) -> String {
        "vnd.latchkey.locker-countersignature:"
            + compact[..<(compact.lastIndex(of: ".") ?? compact.endIndex)]
    }

    /// The text that the key signs.
    func signingInput() throws -> String {
        let issued = Int(issuedAt.timeIntervalSince1970)
        return try JWS.signingInput(
            header: JWS.RequestHeader(type: Self.type, key: key, includesKey: action.hasKey),
            payload: Payload(
                action: action, aud: issuer, iss: enrolmentID, iat: issued,
                exp: action.expires ? issued + Self.life : nil, challenge: challenge,
                metadata: metadata,
                deviceInfo: device, easyAccessKey: easyAccessKey?.rawValue))
    }

    private struct Payload: Encodable {
        let action: Action
        let aud: String
        let iss: String?
        let iat: Int
        let exp: Int?
        let challenge: String?
        let metadata: [String: JSONValue]?
        let deviceInfo: DeviceInfo?
        let easyAccessKey: String?

        private enum CodingKeys: String, CodingKey {
            case action, aud, iss, iat, exp, challenge, metadata
            case deviceInfo = "device_info"
            case easyAccessKey = "easy_access_kid"
        }
    }
}
