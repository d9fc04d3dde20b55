internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

/// The rows of a container.
///
/// | id | holds |
/// |---|---|
/// | `login.user` | the last user (`sub`); kept after a logout |
/// | `login.name` | that user's name or email address, in plain text; deleted when the session ends |
/// | `login.session` | the session's tokens, encrypted |
/// | `login.key` | the registered biometric key and its owner; biometric login is enabled if this row exists |
/// | `login.hint` | an ID token of that owner, encrypted; it names the user at a login in the browser |
/// | `login.dpop` | the key to which the server binds the session's tokens |
/// | `login.pending` | a key whose registration is not complete, and its owner |
/// | `login.identity.KID` | a key that the server may have |
///
/// An identity row without a key row is a key to remove from the server.
///
/// Every row except `login.user` and `login.name` names its server and client (``LoginServer``).
/// Each read verifies the row and compares them with ``server``. A row of another server is
/// refused.
struct LoginRows: Sendable {
    static let userID: RecordID = "login.user"
    static let nameID: RecordID = "login.name"
    static let sessionID: RecordID = "login.session"
    static let keyID: RecordID = "login.key"
    static let pendingID: RecordID = "login.pending"
    static let hintID: RecordID = "login.hint"
    static let dpopID: RecordID = "login.dpop"
    static let identityKind = "login.identity"
    static let owner = "sub"
    static let userName = "name"
    static let keyName = "kid"
    static let audience = "audience"
    static let audienceRequired = "required"

    let records: RecordContainer
    /// The server and client of all rows that are read or written.
    let server: LoginServer
    /// Prompts if the hardware opens rows only with a PIN.
    let presence: any PresenceAuthority

    // MARK: Reading

    /// The enabled key.
    ///
    /// - Parameter session: Replaces ``presence`` in an operation with several prompts.
    func key(for prompt: PromptContext, authorizedBy session: PresenceSession) async throws
        -> BiometricKey?
    {
        try await read(Self.keyID, for: prompt, authorizedBy: session).map {
            try BiometricKey($0.record)
        }
    }

    /// The key whose registration is not complete.
    func pending(for prompt: PromptContext) async throws -> BiometricKey? {
        try await read(Self.pendingID, for: prompt).map { try BiometricKey($0.record) }
    }

    /// The keys that the server may have, oldest first. Only these rows decide which keys the
    /// server is asked to remove.
    func identities(for prompt: PromptContext) async throws -> [RegisteredIdentity] {
        var identities: [RegisteredIdentity] = []
        for listed in try await UnverifiedRows(records: records).identityRows(at: server) {
            guard let found = try await read(listed.id, for: prompt) else { continue }
            if let identity = RegisteredIdentity(found.record) { identities.append(identity) }
        }
        return identities
    }

    func session(for prompt: PromptContext) async throws -> LoginSession? {
        guard let found = try await read(Self.sessionID, for: prompt) else { return nil }
        guard
            let session = found.payload.flatMap({
                LoginSession($0, generation: found.record.generation)
            }
            )
        else {
            throw KeystoreError.otherFormat("the stored session")
        }
        return session
    }

    /// An ID token of the key's owner, current or expired, or nil.
    func hint(for prompt: PromptContext) async throws -> String? {
        try await read(Self.hintID, for: prompt)?.payload?.text
    }

    /// - Throws: `KeystoreError`; ``LoginError`` with code `conflict` for another server's row.
    private func read(
        _ id: RecordID, for prompt: PromptContext, authorizedBy session: PresenceSession? = nil
    ) async throws -> (record: Record, payload: SecretBytes?)? {
        guard let found = try await records.read(id, for: prompt, authorizedBy: session ?? presence)
        else { return nil }
        try server.check(found.record)
        return found
    }

    // MARK: Changes

    /// Makes all changes or none.
    @discardableResult
    func apply(_ changes: [RecordChange], for prompt: PromptContext) async throws(KeystoreError)
        -> [Record]
    {
        try await records.apply(changes, for: prompt, authorizedBy: presence)
    }

    /// Makes all changes or none.
    ///
    /// - Returns: The stored records, or nil, with nothing changed, if a row does not have the
    ///   expected generation.
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

    /// - Parameter hasStoredSession: Whether the session is stored too. The name of a session in
    ///   memory would stay after the program's end.
    static func put(lastUser: UserInfo, hasStoredSession: Bool) -> [RecordChange] {
        let user = Record(
            id: userID, kind: "login.user", attributes: [owner: lastUser.userID])
        let change = RecordChange.put(user, payload: nil, ifGeneration: nil)
        guard hasStoredSession, let shown = lastUser.shownName else { return [change, deleteName] }
        let name = Record(id: nameID, kind: "login.name", attributes: [userName: shown])
        return [change, .put(name, payload: nil, ifGeneration: nil)]
    }

    /// A separate row, because its deletion needs no hardware.
    static let deleteName = RecordChange.delete(nameID, ifGeneration: nil)

    func put(_ session: LoginSession, ifGeneration: Int?) throws -> RecordChange {
        let record = Record(
            id: Self.sessionID, kind: "login.session", attributes: server.attributes)
        return .put(record, payload: try session.payload, ifGeneration: ifGeneration)
    }

    func put(pending key: HardwareKey, owner: String, ifGeneration: Int) -> RecordChange {
        let record = Record(
            id: Self.pendingID, kind: "login.pending", attributes: attributes([Self.owner: owner]),
            key: key)
        return .put(record, payload: nil, ifGeneration: ifGeneration)
    }

    /// - Parameter requiresAudience: Whether each request of this key must name the server and the
    ///   client.
    func put(_ key: HardwareKey, owner: String, requiresAudience: Bool, ifGeneration: Int)
        -> RecordChange
    {
        var own = [Self.owner: owner]
        if requiresAudience { own[Self.audience] = Self.audienceRequired }
        let record = Record(
            id: Self.keyID, kind: "login.key", attributes: attributes(own), key: key)
        return .put(record, payload: nil, ifGeneration: ifGeneration)
    }

    /// Stores or deletes the ID token of the key's owner.
    func put(hint idToken: String?) -> RecordChange {
        guard let idToken else { return .delete(Self.hintID, ifGeneration: nil) }
        return .put(
            Record(id: Self.hintID, kind: "login.hint", attributes: server.attributes),
            payload: SecretBytes(idToken.utf8), ifGeneration: nil)
    }

    func put(identity: RegisteredIdentity) -> RecordChange {
        let names = [Self.keyName: identity.id.rawValue, Self.owner: identity.userID]
        let record = Record(
            id: Self.row(of: identity.id), kind: Self.identityKind, attributes: attributes(names))
        return .put(record, payload: nil, ifGeneration: nil)
    }

    /// Deletes a key's row and hint.
    ///
    /// - Parameter ifGeneration: The generation of the row, or nil for any.
    static func deleteKey(ifGeneration: Int?) -> [RecordChange] {
        [.delete(keyID, ifGeneration: ifGeneration), .delete(hintID, ifGeneration: nil)]
    }

    static func delete(identity: KeyID) -> RecordChange {
        .delete(row(of: identity), ifGeneration: nil)
    }

    private static func row(of identity: KeyID) -> RecordID {
        RecordID(rawValue: "login.identity.\(identity)")
    }

    /// Adds the server to a row's attributes.
    private func attributes(_ own: [String: String]) -> [String: String] {
        own.merging(server.attributes) { $1 }
    }
}

/// A key that the server may have.
struct RegisteredIdentity: Hashable, Sendable {
    let id: KeyID
    let userID: String

    init(id: KeyID, userID: String) {
        self.id = id
        self.userID = userID
    }

    /// - Returns: nil for a row that names no key or no user.
    init?(_ record: Record) {
        guard let id = record.attributes[LoginRows.keyName].flatMap(KeyID.init),
            let userID = record.attributes[LoginRows.owner]
        else { return nil }
        self.init(id: id, userID: userID)
    }
}
