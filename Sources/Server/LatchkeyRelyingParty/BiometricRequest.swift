internal import FoundationEssentials
package import Latchkey
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

    /// The kind of request.
    public let action: Action
    /// The member `device_info`, unverified.
    public var deviceInfo: JSONValue? { jws.payload["device_info"] }
    /// The token of the challenge, unverified.
    ///
    /// - Throws: ``BiometricRequestError`` with code `unacceptable` if there is none.
    package var challenge: String {
        get throws(BiometricRequestError) {
            guard let token = jws.payload["challenge"]?.string else {
                throw BiometricRequestError(.unacceptable, "there is no challenge")
            }
            return token
        }
    }

    let key: JSONWebKey?
    let issuedAt: Double?
    let expiresAt: Double?
    let notBefore: Double?
    let jws: ReceivedJWS

    /// Reads a compact JWS.
    ///
    /// - Throws: ``BiometricRequestError`` with code `unparsable` or `invalidAction`.
    public init(_ compact: String) throws(BiometricRequestError) {
        jws = try ReceivedJWS(request: compact, invalid: BiometricRequestReason.unparsable)
        let payload = jws.payload
        key = if let jwk = jws.header["jwk"] { try JSONWebKey(jwk) } else { nil }
        issuedAt = try Self.time("iat", of: payload)
        expiresAt = try Self.time("exp", of: payload)
        notBefore = try Self.time("nbf", of: payload)
        guard let action = payload["action"]?.string.flatMap(Action.init) else {
            throw BiometricRequestError(.invalidAction, payload["action"]?.string ?? "<nil>")
        }
        self.action = action
    }

    var headerKeyID: String? { jws.header["kid"]?.string }

    /// The name of the key: the embedded key's, or the header's if there is no embedded key.
    var keyName: String? { if let key { key.keyID } else { headerKeyID } }
    /// The name of the key, unverified; nil if it is missing or has another form.
    package var keyID: KeyID? { keyName.flatMap(KeyID.init) }

    private static func time(_ name: String, of payload: [String: JSONValue])
        throws(BiometricRequestError) -> Double?
    {
        switch payload[name] {
        case nil: nil
        case .number(let seconds): seconds.rounded(.down)
        default: throw BiometricRequestError(.unparsable, "invalid JWT: \(name) is not a number")
        }
    }
}

/// The server and the client that a biometric request must name in its claims `aud` and
/// `client_id`.
public struct BiometricAudience: Hashable, Sendable {
    let issuer: String
    let clientID: String

    /// Creates an audience.
    ///
    /// - Parameters:
    ///   - issuer: The server's issuer, exactly as in its discovery document.
    ///   - clientID: The `client_id` of the form.
    public init(issuer: String, clientID: String) {
        self.issuer = issuer
        self.clientID = clientID
    }

    func isNamed(by payload: [String: JSONValue]) -> Bool {
        payload["aud"]?.string == issuer && payload["client_id"]?.string == clientID
    }
}

extension ReceivedJWS {
    /// The maximum length of a request in bytes.
    private static let maximumLength = 16_384
    /// The maximum number of JSON separators in the payload: those of 4096 bytes of a locker's
    /// metadata, `[0,0,…]`, and 150 more.
    private static let maximumPayloadSeparators = 2200

    /// Reads a client's request.
    ///
    /// - Parameter code: The code of the error for a text that is not such a JWS.
    init<Code>(request compact: String, invalid code: Code) throws(VerificationError<Code>) {
        do {
            try self.init(
                compact, maximumLength: Self.maximumLength,
                maximumHeaderSeparators: ReceivedJSON.requestSeparators,
                maximumPayloadSeparators: Self.maximumPayloadSeparators)
        } catch {
            throw VerificationError(code, "invalid JWT: \(error.detail)")
        }
    }
}

extension ReceivedJSON {
    /// The maximum number of separators in a client's JSON. A genuine request has fewer than 200,
    /// unless an app adds its own data.
    package static let requestSeparators = 512
}
