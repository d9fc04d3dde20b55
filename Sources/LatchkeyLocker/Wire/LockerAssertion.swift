internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

/// The JWS with which the device's hardware proves one step: see <doc:LockerProtocol>.
struct LockerAssertion: Sendable {
    enum Action: String, Encodable, Sendable {
        case enrol
        case easyAccessEnable = "easy-access-enable"
        case easyAccessDisable = "easy-access-disable"
        case easyAccess = "easy-access"
        case backgroundAccess = "background-access"
        case levelShares = "level-shares"
        case revoke

        /// Whether the public key goes with it.
        var hasKey: Bool { self == .enrol || self == .easyAccessEnable }
        /// Whether it is good for a short time only.
        var expires: Bool { self != .revoke }
    }

    /// The JOSE `typ`.
    static let type = "vnd.latchkey.locker-request"
    /// Seconds from `iat` to `exp`. The server adds 300 on either side for clocks that differ.
    static let life = 60
    /// The most bytes of JSON that an app's metadata may have.
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
    /// In `easyAccessDisable` only: the key to remove; nil for all.
    var easyAccessKey: KeyID?

    /// What the device key signs to say that the device wants an assertion of another key: a text with a colon, which no
    /// signing input has.
    static func countersigningInput(of compact: String) -> String {
        "vnd.latchkey.locker-countersignature:" + compact[..<(compact.lastIndex(of: ".") ?? compact.endIndex)]
    }

    /// The text that the key signs.
    func signingInput() throws -> String {
        let issued = Int(issuedAt.timeIntervalSince1970)
        return try JWS.signingInput(
            header: Header(
                typ: Self.type, alg: "ES256", kid: key.id.rawValue,
                jwk: action.hasKey ? JWK(key.publicKey, kid: key.id) : nil),
            payload: Payload(
                action: action, aud: issuer, iss: enrolmentID, iat: issued,
                exp: action.expires ? issued + Self.life : nil, challenge: challenge, metadata: metadata,
                deviceInfo: device, easyAccessKey: easyAccessKey?.rawValue))
    }

    private struct Header: Encodable {
        let typ: String
        let alg: String
        let kid: String
        let jwk: JWK?
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
