import LatchkeyRelyingParty

/// What a grant came of.
enum GrantProof: Sendable {
    /// The user's password, on this server's own page.
    case password
    case biometric(RegisteredDevice)
    case easyAccess(LockerEnrolment)
    case background(LockerEnrolment)

    var amr: DeviceAuthentication? {
        switch self {
        case .password: nil
        case .biometric: .biometric
        case .easyAccess: .easyAccess
        case .background: .background
        }
    }

    var deviceID: String? {
        if case .biometric(let device) = self { device.id } else { nil }
    }

    var enrolmentID: String? {
        switch self {
        case .password, .biometric: nil
        case .easyAccess(let enrolment), .background(let enrolment): enrolment.id
        }
    }
}
