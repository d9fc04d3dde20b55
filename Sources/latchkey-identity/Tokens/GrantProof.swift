import Latchkey
import LatchkeyRelyingParty

/// What a grant came of.
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

    var deviceID: String? {
        if case .biometric(let device) = self { device.id } else { nil }
    }

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
