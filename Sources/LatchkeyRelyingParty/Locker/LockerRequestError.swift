/// Why a locker request was refused.
///
/// A client is told much less than this says: see ``oauthError``. Log the rest.
public struct LockerRequestError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Why it was refused.
    public enum Code: String, Sendable, CaseIterable {
        /// Not an assertion as the protocol has it: form, header, or a member that is missing, wrong or too much.
        case malformed
        /// For another action, another server or another enrolment than the one it was sent for.
        case misdirected
        /// Made too long ago, or in the future.
        case untimely
        /// The challenge is unknown, expired, used, or for another purpose.
        case challengeRejected
        /// The signature does not verify.
        case invalidSignature
        /// The device key's signature over the assertion does not verify.
        case invalidCountersignature
        /// The new easy-access key is another key of the enrolment, or has its name.
        case keyTaken
        /// There is no such enrolment, or its device key has another name.
        case enrolmentRevoked
        /// The enrolment has no easy-access key of this name.
        case easyAccessRevoked
        /// The enrolment has as many easy-access keys as it may have.
        case easyAccessLimit
        /// The user has as many enrolments as a user may have.
        case enrolmentLimit
    }

    /// Why it was refused.
    public let code: Code
    /// What exactly was wrong, for a log. It never has anything of the request's text in it.
    public let detail: String

    /// An error of the given code; the detail is for logs.
    public init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    public var description: String { "\(code.rawValue): \(detail)" }

    /// What a client is told: the protocol's table of errors.
    public var oauthError: OAuthError {
        switch code {
        case .malformed, .misdirected, .untimely, .challengeRejected, .invalidSignature, .invalidCountersignature,
            .keyTaken:
            .invalidGrant("the assertion is not accepted")
        case .enrolmentRevoked:
            OAuthError(status: 401, "enrolment_revoked", "there is no such enrolment")
        case .easyAccessRevoked:
            OAuthError("easy_access_revoked", "the enrolment has no such easy-access key")
        case .easyAccessLimit:
            OAuthError(
                status: 409, "easy_access_limit",
                "an enrolment has at most \(LockerEnrolment.maximumEasyAccessKeys) easy-access keys")
        case .enrolmentLimit: .invalidRequest("the user has as many enrolments as a user may have")
        }
    }
}
