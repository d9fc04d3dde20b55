internal import FoundationEssentials
public import LatchkeyJOSE

/// A parsed biometric request. Nothing about it is verified.
public struct BiometricRequest: Sendable {
    /// The kinds of request.
    public enum Action: String, Sendable {
        /// Register the key in the header for the user of the session.
        case setup
        /// Log in with a registered key.
        case authenticate
    }

    /// The maximum length in bytes.
    package static let maximumLength = 16_384

    /// The kind of request.
    public let action: Action
    /// The member `device_info`, unverified.
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

    /// The name of the key: the embedded key's, or the header's if there is no embedded key.
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

/// The server and the client that a biometric request must name in its claims `aud` and `client_id`.
public struct BiometricAudience: Hashable, Sendable {
    /// The server's issuer.
    public let issuer: String
    /// The OAuth client that sends the request.
    public let clientID: String

    /// Creates an audience.
    ///
    /// - Parameters:
    ///   - issuer: The server's issuer, exactly as in its discovery document.
    ///   - clientID: The `client_id` of the form.
    public init(issuer: String, clientID: String) {
        self.issuer = issuer
        self.clientID = clientID
    }
}
