internal import FoundationEssentials
public import Latchkey
public import LatchkeyJOSE

/// A parsed, well-formed locker assertion, unverified: a compact JWS of a device (the page "The
/// locker protocol" of LatchkeyLocker).
public struct LockerRequest: Sendable {
    /// The requested action. An assertion is valid for one action only.
    public enum Action: String, Sendable, CaseIterable {
        /// Enrol the device whose key is in the header.
        case enrol
        /// Add the key in the header for easy access.
        case easyAccessEnable = "easy-access-enable"
        /// Remove easy-access keys with the device key.
        case easyAccessDisable = "easy-access-disable"
        /// Begin a session with an easy-access key.
        case easyAccess = "easy-access"
        /// Get a token with few scopes with the device key.
        case backgroundAccess = "background-access"
        /// Get the level shares with the device key.
        case levelShares = "level-shares"
        /// Delete the enrolment with the device key.
        case revoke

        /// Whether the header contains the key, because the server does not know it yet.
        var includesKey: Bool { self == .enrol || self == .easyAccessEnable }
        /// Whether the assertion contains a challenge and expires. A revocation does not, because a
        /// device can send it long after signing it.
        var hasChallenge: Bool { self != .revoke }
    }

    /// An action for which the device key's signature is sufficient or, for ``levelShares``,
    /// necessary. The other actions have further conditions, which ``LockerRequestVerifier`` checks
    /// in a function for each.
    public enum DeviceAction: Sendable {
        /// Remove easy-access keys.
        case easyAccessDisable
        /// Get a token with few scopes.
        case backgroundAccess
        /// Get the level shares. The server also authenticates the user.
        case levelShares

        var action: Action {
            switch self {
            case .easyAccessDisable: .easyAccessDisable
            case .backgroundAccess: .backgroundAccess
            case .levelShares: .levelShares
            }
        }
    }

    private static let type = "vnd.latchkey.locker-request"
    /// The maximum length of ``metadata`` in bytes of JSON without white space.
    private static let maximumMetadataLength = 4_096
    /// The maximum time between `iat` and `exp` in seconds.
    private static let maximumLifetime = 300.0

    /// The requested action.
    public let action: Action
    /// An object from the app for the server's own use. Latchkey does not store or log it.
    public let metadata: JSONValue?
    /// In `easy-access-disable`, the key to remove; nil for all keys of the enrolment.
    public let easyAccessKeyID: KeyID?
    /// The token of the challenge; nil for `revoke`.
    public var challenge: String? { validity?.challenge }

    /// The claimed times and the challenge.
    struct Validity: Sendable {
        let issuedAt: Double
        let expiresAt: Double
        let challenge: String
    }

    let kid: KeyID
    /// The key in the header, for the actions that have one.
    let publicKey: PublicKey?
    let audience: String
    /// nil for `enrol`.
    let enrolmentID: String?
    /// nil for `revoke`.
    let validity: Validity?
    /// nil except for `enrol`.
    let info: DeviceInfo?
    let signature: ECDSASignature
    let signingInput: String

    /// Reads a compact JWS and does all checks that need no other data.
    ///
    /// - Parameter compact: At most 16,384 bytes.
    /// - Throws: ``LockerRequestError`` with code `malformed`.
    public init(_ compact: String) throws(LockerRequestError) {
        let jws = try ReceivedJWS(request: compact, invalid: LockerRequestReason.malformed)
        let (header, payload) = (jws.header, jws.payload)
        guard let action = payload["action"]?.string.flatMap(Action.init) else {
            throw Self.malformed("its action is unknown")
        }
        guard let audience = payload["aud"]?.string else {
            throw Self.malformed("aud is not a string")
        }
        guard let signature = ECDSASignature(rawRepresentation: jws.signature) else {
            throw Self.malformed("the signature does not have 64 bytes")
        }
        guard header["typ"]?.string == Self.type else {
            throw Self.malformed("typ is not \(Self.type)")
        }
        guard header["alg"]?.string == "ES256" else { throw Self.malformed("alg is not ES256") }
        for (name, isAllowed) in [
            ("iss", action != .enrol), ("device_info", action == .enrol),
            ("exp", action.hasChallenge),
            ("challenge", action.hasChallenge), ("easy_access_kid", action == .easyAccessDisable),
        ] where !isAllowed && payload[name] != nil {
            throw Self.malformed("the action does not allow \(name)")
        }
        self.action = action
        self.audience = audience
        self.signature = signature
        signingInput = jws.signingInput
        kid = try Self.keyID("kid", of: header)
        publicKey = try Self.publicKey(header["jwk"], named: kid, for: action)
        enrolmentID = action == .enrol ? nil : try Self.keyID("iss", of: payload).rawValue
        validity = try Self.validity(payload, hasChallenge: action.hasChallenge)
        metadata = try Self.metadata(payload["metadata"])
        easyAccessKeyID =
            payload["easy_access_kid"] == nil ? nil : try Self.keyID("easy_access_kid", of: payload)
        info = payload["device_info"].flatMap(DeviceInfo.init)
        guard action != .enrol || info != nil else {
            throw Self.malformed("device_info does not name a model")
        }
    }
}

extension LockerRequest {
    private static func malformed(_ detail: String) -> LockerRequestError {
        LockerRequestError(.malformed, detail)
    }

    private static func keyID(_ name: String, of members: [String: JSONValue])
        throws(LockerRequestError) -> KeyID
    {
        guard let id = members[name]?.string.flatMap(KeyID.init) else {
            throw malformed("\(name) is not 8 to 64 characters of A-Z a-z 0-9 _ -")
        }
        return id
    }

    private static func publicKey(
        _ value: JSONValue?, named kid: KeyID, for action: Action
    ) throws(LockerRequestError) -> PublicKey? {
        guard action.includesKey else {
            guard value == nil else { throw malformed("the action does not allow a jwk") }
            return nil
        }
        guard let jwk = value.flatMap({ try? JSONWebKey($0) }) else {
            throw malformed("the jwk is not a key")
        }
        if let objection = jwk.objection { throw malformed(objection) }
        guard case .es256(let key) = jwk.publicKey else {
            throw malformed("the jwk is not a P-256 key for ES256")
        }
        guard jwk.keyID ?? kid.rawValue == kid.rawValue else {
            throw malformed("the jwk has another kid")
        }
        return key
    }

    private static func validity(
        _ payload: [String: JSONValue], hasChallenge: Bool
    ) throws(LockerRequestError) -> Validity? {
        guard let issuedAt = payload["iat"]?.number else { throw malformed("iat is not a number") }
        guard hasChallenge else { return nil }
        guard let expiresAt = payload["exp"]?.number else { throw malformed("exp is not a number") }
        guard expiresAt > issuedAt, expiresAt <= issuedAt + maximumLifetime else {
            throw malformed("exp is not within \(Int(maximumLifetime)) seconds after iat")
        }
        guard let challenge = payload["challenge"]?.string else {
            throw malformed("challenge is not a string")
        }
        return Validity(issuedAt: issuedAt, expiresAt: expiresAt, challenge: challenge)
    }

    private static func metadata(_ value: JSONValue?) throws(LockerRequestError) -> JSONValue? {
        guard let value else { return nil }
        guard
            value.object != nil, let json = try? CanonicalJSON.text(value),
            json.utf8.count <= maximumMetadataLength
        else {
            throw malformed("metadata is not an object of at most \(maximumMetadataLength) bytes")
        }
        return value
    }
}

/// The device key's signature over an assertion that adds another key, unverified.
///
/// Without it, an attacker with a fresh session but without the device could add a key to the
/// enrolment.
public struct LockerCountersignature: Sendable {
    /// The prefix of the signed bytes, followed by the assertion's signing input. A signing input
    /// contains no colon, so that no other signature of the device key is valid here.
    package static let prefix = "vnd.latchkey.locker-countersignature:"

    private let signature: ECDSASignature

    /// Reads `r ‖ s`, 64 bytes in base64url.
    ///
    /// - Throws: ``LockerRequestError`` with code `malformed`.
    public init(_ text: String) throws(LockerRequestError) {
        guard
            let signature = Base64URL.decode(text).flatMap({ ECDSASignature(rawRepresentation: $0) }
            )
        else {
            throw LockerRequestError(
                .malformed, "the device's signature does not have 64 bytes in base64url")
        }
        self.signature = signature
    }

    /// Whether the signature over the assertion verifies with the key.
    func isValid(for request: LockerRequest, by key: PublicKey) -> Bool {
        key.isValid(
            signature, for: MessageDigest(sha256: (Self.prefix + request.signingInput).utf8))
    }
}

/// The reason why a locker request was refused. Its detail never contains text from the request.
public typealias LockerRequestError = VerificationError<LockerRequestReason>

/// The reasons why a locker request is refused.
public enum LockerRequestReason: String, Sendable, CaseIterable {
    /// The form or the header is invalid, or a member is missing, invalid or not allowed.
    case malformed
    /// The assertion is for another action, server or enrolment.
    case misdirected
    /// The assertion has expired, or was issued in the future.
    case untimely
    /// The challenge is unknown, expired, used, or for another purpose.
    case challengeRejected
    /// The signature does not verify.
    case invalidSignature
    /// The device key's signature over the assertion does not verify.
    case invalidCountersignature
    /// The new key, or its name, belongs to another key of the enrolment; or the device key is
    /// enrolled already.
    case keyTaken
    /// There is no such enrolment, or its device key has another name.
    case enrolmentRevoked
    /// The enrolment has no easy-access key of this name.
    case easyAccessRevoked
    /// The enrolment has the maximum number of easy-access keys.
    case easyAccessLimit
    /// The user has the maximum number of enrolments.
    case enrolmentLimit
}

extension LockerRequestError {
    /// The response to the client, from the protocol's table of errors (`LockerProtocol.md`).
    public var oauthError: OAuthError {
        switch code {
        case .malformed, .misdirected, .untimely, .challengeRejected, .invalidSignature,
            .invalidCountersignature,
            .keyTaken:
            .invalidGrant("the assertion is not accepted")
        case .enrolmentRevoked:
            OAuthError(status: 401, "enrolment_revoked", "there is no such enrolment")
        case .easyAccessRevoked:
            OAuthError("easy_access_revoked", "the enrolment has no such easy-access key")
        case .easyAccessLimit:
            OAuthError(
                status: 409, "easy_access_limit",
                "an enrolment has at most \(LockerEnrolment.maximumEasyAccessKeys) easy-access keys"
            )
        case .enrolmentLimit: .invalidRequest("the user has as many enrolments as a user may have")
        }
    }
}
