import Latchkey
import LatchkeyLocker

/// What is known of an enrolment without anybody or anything.
struct LockerStatusReport: Report {
    /// `unregistered` or `enrolled`.
    let phase: String
    let easyAccessEnabled: Bool
    let endpoint: String?
    let clientID: String?
    let enrolmentID: String?
    let userID: String?
    /// Whether the server keeps shares of the keys.
    let levelShares: Bool?
    /// Whether the hardware can take back what opens the levels base and offline.
    let isRevocable: Bool?
    /// Whether it is an enrolment with the configured server; nothing where none is configured.
    let isConfigured: Bool?

    init(_ enrolment: StoredEnrolment?, _ settings: Settings) {
        phase = (enrolment == nil ? SessionPhase.unregistered : .enrolled).rawValue
        easyAccessEnabled = enrolment?.isEasyAccessEnabled ?? false
        endpoint = enrolment?.issuer
        clientID = enrolment?.clientID
        enrolmentID = enrolment?.id
        userID = enrolment?.userID
        levelShares = enrolment?.hasLevelShares
        isRevocable = enrolment?.isRevocable
        isConfigured = enrolment.flatMap { enrolment in
            guard settings.endpoint != nil || settings.clientID != nil else { return nil }
            return settings.endpoint.map { ServerAddress.isSame($0, enrolment.issuer) } ?? true
                && settings.clientID.map { $0 == enrolment.clientID } ?? true
        }
    }

    var text: String {
        guard let endpoint, let clientID, let enrolmentID, let userID, let levelShares else {
            return "This machine is not enrolled."
        }
        let shares = levelShares ? "kept by the server" : "none: no cryptography ties data to sessions"
        let other = isConfigured == false ? " (another one is configured, and other commands refuse)" : ""
        let copies =
            isRevocable == false
            ? "\nThis hardware can't take base and offline back: a copy of the store opens them here after"
                + " ‘end --mode destroy’." : ""
        return """
            This machine is enrolled.
            Server:          \(printable(endpoint))\(other)
            Client:          \(printable(clientID))
            User:            \(printable(userID))
            Enrolment:       \(enrolmentID)
            Easy access:     \(easyAccessEnabled ? "enabled" : "disabled")
            Shares of keys:  \(shares)\(copies)
            """
    }
}
