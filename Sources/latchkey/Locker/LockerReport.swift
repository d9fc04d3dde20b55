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
    /// Whether the hardware can revoke `base`, `offline` and easy access; only in the reports of `locker start` and
    /// `easy-access`.
    let isRevocable: Bool?

    /// Whether what easy access takes was just changed.
    private let hasNewSecret: Bool

    private enum CodingKeys: CodingKey {
        case phase, easyAccessEnabled, expiresAt, scopes, isRevocable
    }

    init(_ status: AuthSessionStatus, hasNewSecret: Bool = false, isRevocable: Bool? = nil) {
        self.isRevocable = isRevocable
        self.hasNewSecret = hasNewSecret
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
        let secret = hasNewSecret ? " It takes the new PIN or finger from now on." : ""
        let copies =
            isRevocable == false
            ? "\nThis hardware cannot revoke the enrolment: a copy of the store still opens base and offline here after"
                + " ‘end --mode destroy’." : ""
        return "\(words) Easy access is \(easyAccessEnabled ? "enabled" : "disabled").\(secret)\(copies)"
    }
}
