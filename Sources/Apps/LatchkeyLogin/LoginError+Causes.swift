internal import Latchkey
package import LatchkeyOAuth

extension LoginErrorCode: OAuthErrorCode {
    package init(_ failure: OAuthFailure) {
        self =
            switch failure {
            case .invalidAddress: .invalidInput
            case .transport(let error): error.code == .cancelled ? .cancelled : .network
            case .refused(let refusal): Self(refusal)
            case .authorization(.refused(let error)): Self(ServerRefusal(error, status: nil))
            case .missingEndpoint(.deviceAuthorization): .unsupported
            case .malformed, .tokens, .metadata, .missingEndpoint, .authorization(.otherIssuer):
                .invalidResponse
            case .idToken(.clock): .clockSkew
            case .idToken(.algorithms): .unsupported
            case .idToken: .invalidToken
            case .authorization(.cancelled), .authorization(.declined): .cancelled
            case .authorization(.timedOut): .timedOut
            case .authorization(.linkReused): .linkReused
            case .authorization(.noPort): .network
            case .attestation, .proof(.noKey), .proof(.hardware): .refused
            case .proof(.lostKey): .unauthenticated
            case .proof(.clock): .clockSkew
            case .proof(.refused): .oauthError
            }
    }

    private init(_ refusal: ServerRefusal) {
        self =
            if refusal.isRateLimit {
                .rateLimited
            } else if refusal.attestationRefusal != nil {
                .refused
            } else if refusal.oauthError != nil {
                .oauthError
            } else {
                refusal.serverError == nil ? .unexpectedStatus : .serverError
            }
    }
}

extension LoginError {
    static func invalidInput(_ reason: String) -> LoginError {
        LoginError(
            code: .invalidInput, reason: reason, recovery: "Correct the value and try again.")
    }

    static func invalidResponse(
        _ reason: String,
        recovery: Recovery = "Check the server's address, and that it supports OpenID Connect."
    ) -> LoginError {
        LoginError(code: .invalidResponse, reason: reason, recovery: recovery)
    }

    /// The refusal of a server that has ended the session.
    var withEndedSession: LoginError {
        with(
            recovery: Recovery(
                "The session on this device has ended: log in again. If it happens again, ask the server's operator what this means.",
                .login))
    }

    /// The failure to remove a key from the server, after biometric login was disabled on this device.
    var withDisabledLogin: LoginError {
        with(
            reason:
                "biometric login is disabled on this device, and the server did not remove the key: \(reason)",
            recovery: Recovery(
                "Remove the key on the server's settings page, or ask the server's operator; the next login here asks the server again.",
                .forceDisable))
    }

    static func invalidToken(_ reason: String) -> LoginError {
        LoginError(
            code: .invalidToken, reason: reason,
            recovery: "Log in again. If it happens again, show this text to the server's operator.")
    }

    static var notEnabled: LoginError {
        LoginError(
            code: .notEnabled, reason: "biometric login is not enabled here",
            recovery: Recovery("To enable it, log in first.", .login, .enable))
    }

    static func otherServer(stored: LoginServer, configured: LoginServer) -> LoginError {
        LoginError(
            code: .conflict,
            reason:
                "the stored login belongs to \(stored), and the configured server is \(configured)",
            recovery: Recovery(
                "Use the server \(stored), or another container, or remove the stored login.",
                .chooseServer, .forceLogout))
    }

    static func identityNotFound(_ recovery: Recovery, _ details: ServerRefusal?) -> LoginError {
        LoginError(
            code: .identityNotFound,
            reason:
                "the server does not know this device's key; it may have been removed on the settings page",
            recovery: recovery, details: details)
    }

    static var userMismatch: LoginError {
        LoginError(
            code: .userMismatch,
            reason:
                "a different user logged in; biometric login on this device belongs to another account",
            recovery:
                "Log in with that account, or disable biometric login first. Use another container for another account."
        )
    }

    static var otherUser: LoginError {
        LoginError(
            code: .userMismatch,
            reason: "a different user was authenticated than the one who is logged in",
            recovery: "Authenticate as the user who is logged in, or log out first.")
    }

    static var cannotReauthenticate: LoginError {
        LoginError(
            code: .cannotReauthenticate,
            reason: "the server cannot authenticate the session's user again",
            recovery: "Log out, then log in again.")
    }

    static func unauthenticated(
        _ reason: String = "no user is logged in", recovery: String = "Log in, then try again."
    ) -> LoginError {
        LoginError(code: .unauthenticated, reason: reason, recovery: Recovery(recovery))
    }

    /// - Parameters:
    ///   - seconds: How far this machine's clock is ahead of the server's; negative when it is
    ///     behind.
    ///   - keepsKey: Whether the operation was to use an enabled key.
    static func clockSkew(seconds: Double, keepsKey: Bool = true) -> LoginError {
        LoginError(
            code: .clockSkew,
            reason: "this machine's clock is \(Int(abs(seconds))) seconds "
                + (seconds > 0 ? "ahead of" : "behind") + " the server's",
            recovery:
                "Set the clock (for example with ‘timedatectl set-ntp true’) and try again\(keepsKey ? "; the key is kept" : "")."
        )
    }
}
