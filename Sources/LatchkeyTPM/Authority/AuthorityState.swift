internal import FoundationEssentials

/// What the presence broker keeps over restarts, in a file that it alone can read. The approval key's authValue is not
/// in it; see ``AuthoritySecret``.
struct AuthorityState: Codable, Sendable {
    static let currentVersion = 2

    var version = currentVersion
    /// The pinned storage root key.
    var root: Data
    /// The approval key: its public area and its private part, wrapped by the TPM.
    var publicArea: Data
    var privatePart: Data
    var users: [UInt32: User] = [:]

    struct User: Codable, Sendable {
        var pin: UserPIN?
        var enrolment: Enrolment?
    }

    /// An index for a user's own PIN.
    struct UserPIN: Codable, Sendable {
        /// After the first write.
        var publicArea: Data
        /// What the broker's approval of a write names.
        var resetReference: Data
        /// The value that is to be replaced by the PIN; nil once that is known to have happened.
        var initialValue: Data?
    }

    /// A user's fingers as they were last seen, and the counter of their changes.
    struct Enrolment: Codable, Sendable {
        var set: Data
        /// After the first write; nil where the TPM has no room.
        var counter: Data?
    }
}
