/// Why a biometric request was refused.
///
/// A client is told much less than this says: see ``oauthError``. Log the rest.
public struct BiometricRequestError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds, in the order in which they are looked for.
    public enum Code: String, Sendable, CaseIterable {
        /// Not a JSON Web Signature with a JSON header and payload, or its `jwk` is not a JSON Web Key.
        case unparsable
        /// `action` is neither `setup` nor `authenticate`.
        case invalidAction
        /// `aud` or `client_id` is missing or names another server or client.
        case wrongAudience
        /// The time, the type, the key's name or the kind of key is not acceptable.
        case unacceptable
        /// The challenge is unknown, expired, used, or for another purpose.
        case challengeRejected
        /// A set-up request without a key, or whose `device_info` names no model.
        case incompleteSetup
        /// No device is registered under the key's name.
        case unknownDevice
        /// The signature does not verify, or the header names another key.
        case invalidSignature
        /// The key's name is taken already, by this user or another.
        case duplicateKeyID
    }

    /// Why it was refused.
    public let code: Code
    /// What exactly was wrong, for a log. With ``Code/invalidAction`` the action itself.
    public let detail: String

    /// An error of the given code; the detail is for logs.
    public init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    public var description: String { "\(code.rawValue): \(detail)" }

    /// What the token endpoint answers, as a deployed Authgear server does.
    public var oauthError: OAuthError {
        switch code {
        case .unparsable: .invalidRequest(detail)
        case .wrongAudience: .invalidRequest("the JWT is not for this server and client")
        case .invalidAction: .invalidRequest("invalid action: \(detail)")
        case .unacceptable, .challengeRejected, .incompleteSetup, .unknownDevice, .invalidSignature:
            .invalidCredentials
        case .duplicateKeyID: .serverError
        }
    }
}
