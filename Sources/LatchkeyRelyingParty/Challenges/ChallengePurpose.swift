/// What a challenge is good for. A challenge for one purpose is worth nothing for another.
public enum ChallengePurpose: String, Sendable, Codable, CaseIterable {
    case anonymousRequest = "anonymous_request"
    case biometricRequest = "biometric_request"
    case app2appRequest = "app2app_request"
    case lockerRequest = "locker_request"
}
