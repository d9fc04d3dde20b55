internal import FoundationEssentials
public import Latchkey

/// A locker assertion as it came: taken apart and of the right form, and nothing about it verified.
public struct LockerRequest: Sendable {
    /// What the device wants. An assertion for one action is worth nothing for another.
    public enum Action: String, Sendable, CaseIterable {
        /// Enrol the device whose key is in the header.
        case enrol
        /// Let the key in the header stand for easy access.
        case easyAccessEnable = "easy-access-enable"
        /// Remove easy-access keys with the device key.
        case easyAccessDisable = "easy-access-disable"
        /// Begin a session with an easy-access key.
        case easyAccess = "easy-access"
        /// Get a narrow token with the device key.
        case backgroundAccess = "background-access"
        /// Get the level shares with the device key.
        case levelShares = "level-shares"
        /// End the enrolment with the device key.
        case revoke

        /// Whether the key comes along, for the server can't know it yet.
        var bringsKey: Bool { self == .enrol || self == .easyAccessEnable }
        /// Whether the assertion answers a challenge and expires. A revocation may be sent long after it was signed.
        var isTimely: Bool { self != .revoke }
    }

    /// The header's `typ`.
    public static let type = "vnd.latchkey.locker-request"
    /// The longest assertion that is looked at, in bytes.
    public static let maximumLength = 16_384
    /// The most that ``metadata`` may have, in bytes of JSON without white space.
    public static let maximumMetadataLength = 4_096
    /// The longest time between `iat` and `exp`, in seconds.
    public static let maximumLifetime = 300.0

    /// What it asks for.
    public let action: Action
    /// What the app sends along, an object, for the server's own purposes: nothing that Latchkey stores or logs.
    public let metadata: JSONValue?
    /// In `easy-access-disable`, the key to remove; nil for all of the enrolment's.
    public let easyAccessKeyID: KeyID?

    /// What was claimed about time; nil in a revocation.
    struct Validity: Sendable {
        let issuedAt: Double
        let expiresAt: Double
        let challenge: String
    }

    let kid: KeyID
    /// There when the action brings one.
    let publicKey: PublicKey?
    let audience: String
    /// There in all actions but `enrol`.
    let enrolmentID: String?
    let validity: Validity?
    /// There in `enrol`.
    let info: DeviceInfo?
    let signature: ECDSASignature
    let signingInput: String

    /// Reads a compact JWS. Everything is checked that can be checked without knowing anything else.
    ///
    /// - Throws: ``LockerRequestError`` with code `malformed`.
    public init(_ compact: String) throws(LockerRequestError) {
        guard compact.utf8.count <= Self.maximumLength else { throw Self.malformed("it is too long") }
        guard let parts = JWS.parse(compact) else { throw Self.malformed("it is not a compact JWS") }
        let header = try Self.object(parts.header, named: "header")
        let payload = try Self.object(parts.payload, named: "payload")

        guard let action = payload["action"]?.string.flatMap(Action.init) else {
            throw Self.malformed("its action is unknown")
        }
        guard let audience = payload["aud"]?.string else { throw Self.malformed("aud is not a text") }
        guard let signature = ECDSASignature(rawRepresentation: parts.signature) else {
            throw Self.malformed("the signature has not 64 bytes")
        }
        self.action = action
        self.audience = audience
        self.signature = signature
        signingInput = parts.signingInput
        kid = try Self.keyID(header)
        publicKey = try Self.publicKey(header["jwk"], named: kid, for: action)
        enrolmentID = try Self.enrolmentID(payload["iss"], for: action)
        validity = try Self.validity(payload, for: action)
        metadata = try Self.metadata(payload["metadata"])
        easyAccessKeyID = try Self.easyAccessKeyID(payload["easy_access_kid"], for: action)
        info = try Self.deviceInfo(payload["device_info"], for: action)
    }
}

extension LockerRequest {
    private static func malformed(_ detail: String) -> LockerRequestError { LockerRequestError(.malformed, detail) }

    private static func object(_ json: Data, named name: String) throws(LockerRequestError) -> [String: JSONValue] {
        guard let value = try? JSONDecoder().decode([String: JSONValue].self, from: json) else {
            throw malformed("the \(name) is not a JSON object")
        }
        return value
    }

    private static func keyID(_ header: [String: JSONValue]) throws(LockerRequestError) -> KeyID {
        guard header["typ"]?.string == type else { throw malformed("typ is not \(type)") }
        guard header["alg"]?.string == "ES256" else { throw malformed("alg is not ES256") }
        // RFC 7515 section 4.1.11: whoever does not understand an extension that is critical refuses.
        guard header["crit"] == nil else { throw malformed("the header has crit") }
        guard let kid = header["kid"]?.string.flatMap(KeyID.init) else {
            throw malformed("kid is not 8 to 64 characters of A-Z a-z 0-9 _ -")
        }
        return kid
    }

    private static func publicKey(
        _ value: JSONValue?, named kid: KeyID, for action: Action
    ) throws(LockerRequestError) -> PublicKey? {
        guard action.bringsKey else {
            guard value == nil else { throw malformed("the action has no jwk") }
            return nil
        }
        guard let jwk = value.flatMap({ try? JSONWebKey($0) }) else { throw malformed("the jwk is not a key") }
        guard !jwk.hasPrivateMembers else { throw malformed("the jwk has private members") }
        guard case .es256(let key) = jwk.publicKey, jwk.algorithm ?? "ES256" == "ES256", jwk.use ?? "sig" == "sig"
        else {
            throw malformed("the jwk is not a P-256 key for ES256")
        }
        guard jwk.keyID ?? kid.rawValue == kid.rawValue else { throw malformed("the jwk has another kid") }
        return key
    }

    private static func enrolmentID(_ value: JSONValue?, for action: Action) throws(LockerRequestError) -> String? {
        guard action != .enrol else {
            guard value == nil else { throw malformed("the action has no iss") }
            return nil
        }
        guard let id = value?.string.flatMap(KeyID.init) else {
            throw malformed("iss is not 8 to 64 characters of A-Z a-z 0-9 _ -")
        }
        return id.rawValue
    }

    private static func validity(
        _ payload: [String: JSONValue], for action: Action
    ) throws(LockerRequestError) -> Validity? {
        guard let issuedAt = payload["iat"]?.number else { throw malformed("iat is not a number") }
        guard action.isTimely else {
            guard payload["exp"] == nil, payload["challenge"] == nil else {
                throw malformed("the action has neither exp nor challenge")
            }
            return nil
        }
        guard let expiresAt = payload["exp"]?.number else { throw malformed("exp is not a number") }
        guard expiresAt > issuedAt, expiresAt <= issuedAt + maximumLifetime else {
            throw malformed("exp is not within \(Int(maximumLifetime)) seconds after iat")
        }
        guard let challenge = payload["challenge"]?.string else { throw malformed("challenge is not a text") }
        return Validity(issuedAt: issuedAt, expiresAt: expiresAt, challenge: challenge)
    }

    private static func metadata(_ value: JSONValue?) throws(LockerRequestError) -> JSONValue? {
        guard let value else { return nil }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        guard
            value.object != nil, let json = try? encoder.encode(value), json.count <= maximumMetadataLength
        else { throw malformed("metadata is not an object of at most \(maximumMetadataLength) bytes") }
        return value
    }

    private static func easyAccessKeyID(
        _ value: JSONValue?, for action: Action
    ) throws(LockerRequestError) -> KeyID? {
        guard let value else { return nil }
        guard action == .easyAccessDisable else { throw malformed("the action has no easy_access_kid") }
        guard let kid = value.string.flatMap(KeyID.init) else {
            throw malformed("easy_access_kid is not 8 to 64 characters of A-Z a-z 0-9 _ -")
        }
        return kid
    }

    private static func deviceInfo(_ value: JSONValue?, for action: Action) throws(LockerRequestError) -> DeviceInfo? {
        guard action == .enrol else {
            guard value == nil else { throw malformed("the action has no device_info") }
            return nil
        }
        guard let info = value.flatMap(DeviceInfo.init) else { throw malformed("device_info names no model") }
        return info
    }
}
