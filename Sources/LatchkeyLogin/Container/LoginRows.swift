internal import FoundationEssentials
internal import Latchkey

/// The rows of a container.
///
/// | id | holds |
/// |---|---|
/// | `login.user` | the last user (`sub`) |
/// | `login.session` | the session's tokens, encrypted |
/// | `login.key` | the biometric key that the server knows, and its owner: enabled means that this row is there |
/// | `login.hint` | an ID token of that owner, encrypted: for pinning the user at a login in the browser |
/// | `login.pending` | a key whose registration was begun and not yet confirmed, and its owner |
/// | `login.identity.KID` | that the server may list the key under this name |
///
/// An identity row without a key row is what remains to be removed on the server.
struct LoginRows: Sendable {
    static let userID: RecordID = "login.user"
    static let sessionID: RecordID = "login.session"
    static let keyID: RecordID = "login.key"
    static let pendingID: RecordID = "login.pending"
    private static let hintID: RecordID = "login.hint"
    private static let identityKind: RecordKind = "login.identity"
    private static let owner = "sub"

    let records: RecordContainer
    /// Who is asked where the hardware opens nothing without its owner.
    let presence: any PresenceAuthority

    // MARK: Reading

    /// The last user's id. Needs no hardware.
    func lastUser() async throws(KeystoreError) -> String? {
        try await records.metadata(Self.userID)?.attributes[Self.owner]
    }

    /// The key without a look at whether the row is authentic. Needs no hardware.
    func key() async throws(KeystoreError) -> BiometricKey? {
        guard let record = try await records.metadata(Self.keyID) else { return nil }
        return try Self.biometricKey(record)
    }

    /// The key, authentic.
    func verifiedKey(for prompt: PromptContext) async throws(KeystoreError) -> BiometricKey? {
        guard let found = try await records.read(Self.keyID, for: prompt, authorizedBy: presence) else { return nil }
        return try Self.biometricKey(found.record)
    }

    /// The key whose registration was begun. Needs no hardware.
    func pending() async throws(KeystoreError) -> BiometricKey? {
        guard let record = try await records.metadata(Self.pendingID) else { return nil }
        return try Self.biometricKey(record)
    }

    /// What the server may know, oldest first, without a look at whether the rows are authentic. Needs no hardware.
    func identities() async throws(KeystoreError) -> [RegisteredIdentity] {
        try await records.list(Self.identityKind).compactMap(Self.identity)
    }

    /// What the server may know, oldest first, authentic: only that may decide what the server is asked to remove.
    func verifiedIdentities(for prompt: PromptContext) async throws(KeystoreError) -> [RegisteredIdentity] {
        var identities: [RegisteredIdentity] = []
        for listed in try await records.list(Self.identityKind) {
            guard let found = try await records.read(listed.id, for: prompt, authorizedBy: presence) else { continue }
            if let identity = Self.identity(found.record) { identities.append(identity) }
        }
        return identities
    }

    /// The generation of the session's row, or nil without one. Needs no hardware.
    func sessionGeneration() async throws(KeystoreError) -> Int? {
        try await records.metadata(Self.sessionID)?.generation
    }

    func session(for prompt: PromptContext) async throws(KeystoreError) -> Session? {
        guard let found = try await records.read(Self.sessionID, for: prompt, authorizedBy: presence) else {
            return nil
        }
        guard
            let payload = found.payload,
            let stored = payload.withUnsafeBytes({ try? JSONDecoder().decode(StoredSession.self, from: Data($0)) })
        else { throw .damaged(prompt.reason, "the stored session can't be read") }
        return stored.session(generation: found.record.generation)
    }

    /// An ID token of the key's owner, which may have expired, or nil.
    func hint(for prompt: PromptContext) async throws(KeystoreError) -> String? {
        try await records.read(Self.hintID, for: prompt, authorizedBy: presence)?.payload?.text
    }

    // MARK: Changes

    /// Opens what sessions are encrypted under, before anything is asked of the server that has to be written down.
    /// Costs nothing when it is open; asks somebody only where the hardware opens nothing without its owner.
    func open(for prompt: PromptContext, authorizedBy consent: SingleConsent) async throws(KeystoreError) {
        try await records.open(.device, for: prompt, authorizedBy: consent)
    }

    /// Makes all changes or none.
    @discardableResult
    func apply(_ changes: [RecordChange], for prompt: PromptContext) async throws(KeystoreError) -> [Record] {
        try await records.apply(changes, for: prompt, authorizedBy: presence)
    }

    /// Makes all changes or none.
    ///
    /// - Returns: The records that were put, or nil when a generation is not the expected one: then somebody else was
    ///   here first, and nothing was changed.
    func applyUnlessChanged(
        _ changes: [RecordChange], for prompt: PromptContext
    ) async throws(KeystoreError) -> [Record]? {
        do {
            return try await apply(changes, for: prompt)
        } catch {
            guard error.code == .conflict else { throw error }
            return nil
        }
    }

    static func put(lastUser: String) -> RecordChange {
        .put(Record(id: userID, kind: "login.user", attributes: [owner: lastUser]), payload: nil, ifGeneration: nil)
    }

    static func put(_ session: Session, ifGeneration: Int?) throws -> RecordChange {
        let payload = SecretBytes(try JSONEncoder().encode(StoredSession(session)))
        return .put(Record(id: sessionID, kind: "login.session"), payload: payload, ifGeneration: ifGeneration)
    }

    static func put(pending key: HardwareKey, owner: String, ifGeneration: Int) -> RecordChange {
        let record = Record(id: pendingID, kind: "login.pending", attributes: [Self.owner: owner], key: key)
        return .put(record, payload: nil, ifGeneration: ifGeneration)
    }

    static func put(_ key: HardwareKey, owner: String, ifGeneration: Int) -> RecordChange {
        let record = Record(id: keyID, kind: "login.key", attributes: [Self.owner: owner], key: key)
        return .put(record, payload: nil, ifGeneration: ifGeneration)
    }

    /// What a key's row goes with: the owner's ID token, if there is one.
    static func put(hint idToken: String?) -> RecordChange {
        guard let idToken else { return .delete(hintID, ifGeneration: nil) }
        return .put(
            Record(id: hintID, kind: "login.hint"), payload: SecretBytes(idToken.utf8), ifGeneration: nil)
    }

    /// Deletes a key's row, and what goes with it.
    ///
    /// - Parameter ifGeneration: The generation of the row that is meant, or nil for any.
    static func deleteKey(ifGeneration: Int?) -> [RecordChange] {
        [.delete(keyID, ifGeneration: ifGeneration), put(hint: nil)]
    }

    static func put(identity: RegisteredIdentity) -> RecordChange {
        let attributes = ["kid": identity.id.rawValue, owner: identity.userID]
        return .put(
            Record(id: row(of: identity.id), kind: identityKind, attributes: attributes), payload: nil,
            ifGeneration: nil)
    }

    static func delete(identity: KeyID) -> RecordChange {
        .delete(row(of: identity), ifGeneration: nil)
    }

    private static func row(of identity: KeyID) -> RecordID {
        RecordID(rawValue: "login.identity.\(identity)")
    }

    private static func identity(_ record: Record) -> RegisteredIdentity? {
        guard let kid = record.attributes["kid"].flatMap(KeyID.init), let owner = record.attributes[Self.owner]
        else { return nil }
        return RegisteredIdentity(id: kid, userID: owner)
    }

    private static func biometricKey(_ record: Record) throws(KeystoreError) -> BiometricKey {
        guard let key = record.key, let owner = record.attributes[Self.owner] else {
            throw .damaged("read the biometric key", "its record has no key or no owner")
        }
        return BiometricKey(userID: owner, key: key, generation: record.generation)
    }
}
