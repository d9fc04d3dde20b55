public import Latchkey

/// What is stored of an enrolment in the clear: what a tool shows without a server, the hardware or a person.
///
/// Nothing of it is verified: let it decide what to show and what to refuse early, not what to allow.
public struct StoredEnrolment: Hashable, Sendable {
    /// The server's name for it.
    public let id: String
    /// The server's address, as it was configured when this device was enrolled.
    public let issuer: String
    /// The OAuth client, as it was configured then.
    public let clientID: String
    /// The user's id at the server: the `sub` of its tokens.
    public let userID: String
    /// Whether the server keeps shares of the level keys; without them no cryptography ties data to sessions.
    public let hasLevelShares: Bool
    /// Whether the secret starts a session.
    public let isEasyAccessEnabled: Bool
    /// Whether the hardware can take back what opens `base` and `offline`, and the key of easy access: see ``Locker/isStoredRevocably()``.
    public let isRevocable: Bool

    /// Reads it.
    ///
    /// - Returns: nil where this device is not enrolled.
    /// - Throws: `KeystoreError`; `damaged` when the row can't be read.
    public init?(of records: RecordContainer) async throws(KeystoreError) {
        guard let row = try await records.metadata(LockerRows.enrolmentID) else { return nil }
        let attributes = row.attributes
        guard let id = attributes["enrolment"], EnrolmentID.isValid(id), let issuer = attributes["issuer"],
            let clientID = attributes["client"], let userID = attributes["user"]
        else { throw .damaged("read the enrolment", "its row is not what was stored") }
        isRevocable = try await LockerRows(records: records).isRevocable(attributes) ?? false
        self.id = id
        self.issuer = issuer
        self.clientID = clientID
        self.userID = userID
        hasLevelShares = attributes["shared"] == "true"
        isEasyAccessEnabled = attributes["easyAccess"] != nil
    }

    /// The keys that the container's locker uses or has yet to give up. Whoever deletes one by hand ruins the enrolment.
    ///
    /// - Throws: `KeystoreError`; `damaged` when a row can't be read at all.
    public static func keys(in records: RecordContainer) async throws(KeystoreError) -> Set<KeyID> {
        let row = try await records.metadata(LockerRows.enrolmentID)
        let named = ["deviceKey", "easyAccess"].compactMap { row?.attributes[$0] }.compactMap(KeyID.init)
        let pending = try await records.list(PendingKey.kind).compactMap { $0.key?.id }
        return Set(named + pending)
    }
}
