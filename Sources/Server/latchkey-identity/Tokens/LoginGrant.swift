import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// The grant of one login of one user in one client. All tokens of the login belong to it.
struct LoginGrant: Sendable {
    /// A random UUID in lower case; the first part of the refresh token.
    let id: String
    let clientID: String
    let userID: String
    /// The device of a biometric login. Deleting the device ends the grant.
    let deviceID: String?
    /// The enrolment of easy or background access. Deleting the enrolment ends the grant.
    let enrolmentID: String?
    /// The key of easy access. Deleting the key ends the grant.
    let easyAccessKeyID: String?
    /// Space-separated.
    let scope: String
    /// How the user was authenticated; nil for a password.
    let amr: DeviceAuthentication?
    /// The time of the user's latest authentication; a refresh does not change it. Seconds since
    /// 1970, like the other times.
    let authTime: Double
    let expiresAt: Double
    let idleExpiresAt: Double
    /// The thumbprint of the key to which the refresh token is bound (`cnf.jkt`); nil for none.
    let keyThumbprint: String?

    var scopes: Set<String> { Set(scope.split(separator: " ").map(String.init)) }

    var hasFullAccess: Bool { scopes.contains(Scope.fullAccess) }
    /// Whether the session may add and remove the user's devices. One of the locker may not: the end
    /// of its enrolment ends the session, and not what the session changed.
    var managesDevices: Bool { hasFullAccess && enrolmentID == nil }

    /// Whether the session may remove the keys of an enrolment: one that manages the user's devices,
    /// and one of this enrolment, which can then only end itself.
    func manages(_ enrolment: LockerEnrolment) -> Bool {
        managesDevices || hasFullAccess && enrolmentID == enrolment.id
    }

    /// Whether the user was authenticated, and not only the device.
    var hasUser: Bool { amr != .background }

    /// Whether the session began with strong authentication: the user logged in on this server's
    /// own page.
    var isStrong: Bool { amr == nil }

    /// The claim `sid`.
    var sessionID: String { Base64URL.encode(Data((Self.sessionPrefix + id).utf8)) }

    private static let sessionPrefix = "offline_grant:"

    /// The ID of the grant with this `sid`; nil if the text has another form.
    static func id(ofSession sessionID: String) -> String? {
        guard let data = Base64URL.decode(sessionID) else { return nil }
        let text = String(decoding: data, as: UTF8.self)
        return text.hasPrefix(sessionPrefix) ? String(text.dropFirst(sessionPrefix.count)) : nil
    }
}

/// The verified proof for which a grant is issued.
enum GrantProof: Sendable {
    /// The user's password, on this server's own page.
    case password
    case biometric(RegisteredDevice)
    case easyAccess(LockerEnrolment, LockerKey)
    case background(LockerEnrolment)

    var amr: DeviceAuthentication? {
        switch self {
        case .password: nil
        case .biometric: .biometric
        case .easyAccess: .easyAccess
        case .background: .background
        }
    }

    var deviceID: String? { if case .biometric(let device) = self { device.id } else { nil } }

    var enrolmentID: String? {
        switch self {
        case .password, .biometric: nil
        case .easyAccess(let enrolment, _), .background(let enrolment): enrolment.id
        }
    }

    var easyAccessKeyID: String? {
        if case .easyAccess(_, let key) = self { key.kid.rawValue } else { nil }
    }
}

/// How a device authenticated, as values of the claim `amr` (RFC 8176), separated by spaces.
enum DeviceAuthentication: String, Sendable, Codable {
    /// Authgear's biometric grant.
    case biometric = "x_biometric"
    /// A PIN-protected hardware key.
    case easyAccess = "hwk pin"
    /// A hardware key that signs without user verification: it authenticates the device, not the
    /// user.
    case background = "hwk"

    /// The values of the claim.
    var references: [String] { rawValue.split(separator: " ").map(String.init) }
}

/// A stored authorization code.
struct AuthorizationCode: Sendable {
    /// Seconds.
    static let lifetime = 60.0

    let digest: Data
    /// The ID of the grant that the code will be exchanged for: a new one, or one that the login
    /// continues (``isReauthentication``).
    let grantID: String
    let clientID: String
    let userID: String
    let redirectURI: String
    /// SHA-256 of the verifier in base64url (RFC 7636 section 4.2).
    let codeChallenge: String
    let scope: String
    let nonce: String?
    /// The thumbprint of the key that must redeem the code (RFC 9449 section 10); nil for any.
    let keyThumbprint: String?
    let authTime: Double
    let expiresAt: Double
    let isUsed: Bool
    /// Whether the grant existed before the login.
    var isReauthentication = false

    /// Whether a PKCE verifier matches the request's challenge.
    func accepts(verifier: String) -> Bool {
        ProofKey.isVerifier(verifier)
            && constantTimeEqual(ProofKey.challenge(verifier).utf8, codeChallenge.utf8)
    }
}

/// Proof Key for Code Exchange (RFC 7636), method S256.
enum ProofKey {
    /// 43 to 128 characters of `A-Z a-z 0-9 - . _ ~` (section 4.1).
    static func isVerifier(_ text: String) -> Bool {
        (43...128).contains(text.utf8.count) && FormEncoding.encode([("", text)]) == "=" + text
    }

    /// 43 characters: SHA-256 in base64url (section 4.2).
    static func isChallenge(_ text: String) -> Bool { Base64URL.decode(text)?.count == 32 }

    static func challenge(_ verifier: String) -> String {
        Base64URL.encode(MessageDigest(sha256: verifier.utf8).bytes)
    }
}
