internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyJOSE
internal import LatchkeyOAuth

/// The JWT that registers a device's key for biometric login, or logs in with it.
struct SignedLoginRequest: Sendable {
    enum Action: String, Encodable, Sendable {
        case setup
        case authenticate
    }

    /// The JOSE `typ` of the request.
    static let type = "vnd.authgear.biometric-request"
    /// The OAuth grant type of the request.
    static let grantType = "urn:authgear:params:oauth:grant-type:biometric-request"
    /// Seconds from `iat` to `exp`. The server accepts a clock difference of another 300 seconds in
    /// both directions.
    static let life = 60

    let action: Action
    let challenge: String
    let key: HardwareKey
    let device: DeviceInfo
    let issuedAt: Date
    /// nil for a server that does not announce that it requires an audience.
    let audience: Audience?

    /// The server and client that may use the request.
    struct Audience: Sendable {
        let issuer: String
        let clientID: String
    }

    /// The text that the key signs. The header contains `kid` for both actions, and the public key
    /// for `setup` only.
    func signingInput() throws -> String {
        let issued = Int(issuedAt.timeIntervalSince1970)
        return try JWS.signingInput(
            header: JWS.RequestHeader(type: Self.type, key: key, includesKey: action == .setup),
            payload: Payload(
                iat: issued, exp: issued + Self.life, challenge: challenge, action: action,
                deviceInfo: device,
                aud: audience?.issuer, clientID: audience?.clientID))
    }

    private struct Payload: Encodable {
        let iat: Int
        let exp: Int
        let challenge: String
        let action: Action
        let deviceInfo: DeviceInfo
        let aud: String?
        let clientID: String?

        private enum CodingKeys: String, CodingKey {
            case iat, exp, challenge, action, aud
            case deviceInfo = "device_info"
            case clientID = "client_id"
        }
    }
}
