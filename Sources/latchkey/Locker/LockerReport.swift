import FoundationEssentials
import Latchkey
import LatchkeyLocker

/// How a session stands, or stood when the command had done its work.
struct LockerReport: Report {
    /// `unregistered`, `enrolled`, `activeViaStrongAuth`, `activeViaEasyAccess`, `backgroundAccess` or `verifiedOffline`.
    let phase: String
    let easyAccessEnabled: Bool
    let expiresAt: Date?
    let scopes: [String]?

    init(_ status: AuthSessionStatus) {
        phase = status.phase.rawValue
        easyAccessEnabled = status.isEasyAccessEnabled
        expiresAt = status.accessToken?.expiresAt
        scopes = status.accessToken?.scopes
    }

    var text: String {
        let words =
            switch SessionPhase(rawValue: phase) {
            case .enrolled: "This machine is enrolled."
            case .activeViaStrongAuth: "You are logged in; the session ends with this command."
            case .activeViaEasyAccess: "You are recognised; the session ends with this command."
            case .backgroundAccess: "There is background access; it ends with this command."
            case .verifiedOffline: "You are recognised, without the server; that ends with this command."
            case .unregistered, nil: "This machine is not enrolled."
            }
        guard phase != SessionPhase.unregistered.rawValue else { return words }
        return "\(words) Easy access is \(easyAccessEnabled ? "enabled" : "disabled")."
    }
}
