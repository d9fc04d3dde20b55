/// What a challenge is good for. A challenge for one purpose is worth nothing for another.
public enum ChallengePurpose: String, Sendable, Codable, CaseIterable {
    /// An anonymous user's request.
    case anonymousRequest = "anonymous_request"
    /// A biometric request.
    case biometricRequest = "biometric_request"
    /// An app that logs another app in.
    case app2appRequest = "app2app_request"
    /// A locker assertion.
    case lockerRequest = "locker_request"
}
