internal import FoundationEssentials
internal import Latchkey

/// What a call has brought so far. It becomes the session's when the call ends well.
struct SessionDraft: Sendable {
    /// The user who logged in.
    var userID: String?
    var token: AccessToken?
    /// The secret that was right.
    var secret: PIN?
    var levels: [ProtectionLevel: LevelKey] = [:]
    /// What is stored now; nil when that has not changed. The inner nil is no enrolment at all.
    var enrolment: Enrolment??
    var counters: LockerCounters?
}
