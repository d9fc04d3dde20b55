internal import FoundationEssentials
public import Latchkey

/// A biometric request as it came: taken apart, and nothing about it verified.
public struct BiometricRequest: Sendable {
    /// What the client wants.
    public enum Action: String, Sendable {
        /// Register the key in the header for the user of the session.
        case setup
        /// Log in with a key that is registered.
        case authenticate
    }

    /// The longest request that is looked at, in bytes.
    public static let maximumLength = 16_384

    /// What it asks for.
    public let action: Action
    /// The member `device_info`, which the client makes up.
    public let deviceInfo: JSONValue?

    let type: String?
    let algorithm: String?
    let headerKeyID: String?
    let key: JSONWebKey?
    let challenge: String?
    let issuedAt: Double?
    let expiresAt: Double?
    let notBefore: Double?
    let audience: BiometricAudience?
    let signature: Data
    let signingInput: String

    /// Reads a compact JWS.
    ///
    /// - Throws: ``BiometricRequestError`` with code `unparsable` or `invalidAction`.
    public init(_ compact: String) throws(BiometricRequestError) {
        guard compact.utf8.count <= Self.maximumLength else {
            throw BiometricRequestError(.unparsable, "invalid JWT: too long")
        }
        guard let parts = JWS.parse(compact) else {
            throw BiometricRequestError(.unparsable, "invalid JWT: not a compact JWS with one signature")
        }
        let header = try Self.object(parts.header, named: "header")
        let payload = try Self.object(parts.payload, named: "payload")

        type = header["typ"]?.string
        algorithm = header["alg"]?.string
        headerKeyID = header["kid"]?.string
        key = if let jwk = header["jwk"] { try JSONWebKey(jwk) } else { nil }
        challenge = payload["challenge"]?.string
        issuedAt = try Self.time("iat", of: payload)
        expiresAt = try Self.time("exp", of: payload)
        notBefore = try Self.time("nbf", of: payload)
        deviceInfo = payload["device_info"]
        audience = payload["aud"]?.string.flatMap { issuer in
            payload["client_id"]?.string.map { BiometricAudience(issuer: issuer, clientID: $0) }
        }
        signature = parts.signature
        signingInput = parts.signingInput

        guard let action = payload["action"]?.string.flatMap(Action.init) else {
            throw BiometricRequestError(.invalidAction, payload["action"]?.string ?? "<nil>")
        }
        self.action = action
    }

    /// The name of the key: the embedded key's own where there is one, else the header's.
    var keyID: String? { if let key { key.keyID } else { headerKeyID } }

    private static func object(_ json: Data, named name: String) throws(BiometricRequestError) -> [String: JSONValue] {
        guard let value = try? JSONDecoder().decode([String: JSONValue].self, from: json) else {
            throw BiometricRequestError(.unparsable, "invalid JWT: the \(name) is not a JSON object")
        }
        return value
    }

    private static func time(_ name: String, of payload: [String: JSONValue]) throws(BiometricRequestError) -> Double? {
        switch payload[name] {
        case nil: nil
        case .number(let seconds): seconds.rounded(.down)
        default: throw BiometricRequestError(.unparsable, "invalid JWT: \(name) is not a number")
        }
    }
}
