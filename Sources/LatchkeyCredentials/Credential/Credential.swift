public import Latchkey
internal import Synchronization

/// One stored token, and what can be done with it.
///
/// A credential is a handle: it holds no secret. The token is read, and opened by the hardware where its policy says
/// so, each time that it is needed; so a credential sees what other programs have changed. There is one object for
/// each id as long as somebody holds it.
public final class Credential: Sendable, Identifiable {
    /// The token's id. It stays the same when the token is refreshed.
    public let id: String
    let store: CredentialStore
    let refresher = Mutex<AutomaticRefresh?>(nil)

    init(id: String, store: CredentialStore) {
        self.id = id
        self.store = store
    }

    deinit {
        refresher.withLock { $0?.stop() }
    }

    /// The token, authentic. Asks the person where the credential's policy says so, unless another use of this same
    /// credential is under way for which the person was asked.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` when it was removed; `KeystoreError`: `damaged` when somebody
    ///   else changed a row, `cancelled`, `wrongProof`, `lockedOut`, `wrongDevice`.
    public var token: Token {
        get async throws {
            try await withOpen("use the token") { try await self.stored("use the token").token }
        }
    }

    /// What is known without opening the token.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` when it was removed.
    public var metadata: Token.Metadata {
        get throws {
            guard let metadata = try store.rows.metadata(id) else { throw CredentialError.notFound("look it up", id) }
            return metadata
        }
    }

    /// What the hardware demands before it opens the token.
    public var security: AccessPolicy {
        get throws { try protection("look it up").policy }
    }

    /// The app's own labels, by which `find(where:)` finds the credential. Setting them keeps the token as it is.
    ///
    /// This property can't throw: where it fails, it reads as empty or stays as it was, and
    /// ``CredentialEvent/failed(_:)`` tells why. ``metadata`` and ``setTags(_:)`` throw.
    public var tags: [String: String] {
        get { store.reporting { try metadata.tags } ?? [:] }
        set { store.reporting { try setTags(newValue) } }
    }

    /// Replaces the tags.
    ///
    /// - Throws: ``CredentialError``, `KeystoreError`; `conflict` when another program changed them meanwhile.
    public func setTags(_ tags: [String: String]) throws {
        try CredentialRows.check(tags: tags)
        guard let (record, _) = try store.records.readNow(CredentialRows.metadataID(id)) else {
            throw CredentialError.notFound("tag the credential", id)
        }
        guard CredentialRows.tags(of: record) != tags else { return }
        try store.records.applyNow([
            .put(CredentialRows.metadata(record, taggedAs: tags), payload: nil, ifGeneration: record.generation)
        ])
        store.tell(.tagsChanged(self))
    }

    /// Removes the token from the store, and this credential with it. Needs no hardware, and asks nobody. The server is
    /// not told: see ``revoke(type:)``.
    public func remove() throws {
        try store.remove(self)
        automaticRefresh = false
    }

    // MARK: For the other parts

    /// Runs `body` with the classes open that the token takes. May ask the person, before `body`.
    func withOpen<R>(_ operation: String, _ body: () async throws -> R) async throws -> R {
        let protection = try protection(operation)
        do {
            return try await store.gates.withOpen(
                protection, for: store.prompt(operation), authorizedBy: store.presence, body)
        } catch let error as KeystoreError where error.code == .notFound {
            // A class goes with its credential.
            guard try store.rows.exists(id) else { throw CredentialError.notFound(operation, id) }
            throw error
        }
    }

    /// The rows, read on the disk's thread.
    func stored(_ operation: String) async throws -> StoredCredential {
        let (rows, id) = (store.rows, id)
        guard let stored = try await store.disk.run({ try rows.stored(id) }) else {
            throw CredentialError.notFound(operation, id)
        }
        return stored
    }

    private func protection(_ operation: String) throws -> ProtectionClass {
        if let protection = try store.rows.protection(id) { return protection }
        guard try store.rows.exists(id) else { throw CredentialError.notFound(operation, id) }
        throw KeystoreError.damaged(operation, "the credential ‘\(id)’ has lost its token")
    }
}

extension CredentialStore {
    /// For what can't throw: tells of the error.
    @discardableResult
    func reporting<R>(_ body: () throws -> R) -> R? {
        do {
            return try body()
        } catch {
            tell(.failed(error))
            return nil
        }
    }
}

extension Credential: Hashable, CustomStringConvertible {
    public static func == (left: Credential, right: Credential) -> Bool {
        left.id == right.id && left.store === right.store
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(id)
        hasher.combine(ObjectIdentifier(store))
    }

    public var description: String { "‹credential \(id)›" }
}
