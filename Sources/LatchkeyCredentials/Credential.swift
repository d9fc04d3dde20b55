package import Latchkey
internal import Synchronization

/// A stored token and its operations.
///
/// A credential is a handle without secrets. Each use reads the token, and opens it with the hardware if it has a policy,
/// so a credential sees the changes of other programs. While an object for an id exists, the store returns it again.
public final class Credential: Sendable, Identifiable {
    /// The token's id. A refresh does not change it.
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

    /// The token, verified. Prompts if the credential has a policy, unless another use of this credential has prompted and
    /// is still running.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` if it was removed. `KeystoreError`: `damaged` if a row was
    ///   changed by another program, `cancelled`, `wrongProof`, `lockedOut`, `wrongDevice`.
    public var token: Token {
        get async throws {
            try await withOpen("use the token") { try await self.stored("use the token").token }
        }
    }

    /// The metadata. Does not open the token.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` if it was removed.
    public var metadata: Token.Metadata {
        get throws {
            guard let metadata = try store.rows.metadata(id) else { throw CredentialError.notFound("look it up", id) }
            return metadata
        }
    }

    /// The user verification that opening the token requires.
    package var security: AccessPolicy {
        get throws { try protection("look it up").policy }
    }

    /// The app's labels for `find(where:)`. Setting them does not change the token.
    ///
    /// This property can't throw. If an access fails, it reads as empty or stays unchanged, and
    /// ``CredentialEvent/failed(_:)`` has the error. ``metadata`` and ``setTags(_:)`` throw.
    public var tags: [String: String] {
        get { store.reporting { try metadata.tags } ?? [:] }
        set { store.reporting { try setTags(newValue) } }
    }

    /// Replaces the tags.
    ///
    /// - Throws: ``CredentialError``, `KeystoreError`; `conflict` if another program changed them at the same time.
    public func setTags(_ tags: [String: String]) throws {
        try CredentialRows.check(tags: tags)
        guard let (record, _) = try store.records.readNow(CredentialRows.metadataID(id)) else {
            throw CredentialError.notFound("tag the credential", id)
        }
        guard CredentialRows.tags(of: record) != tags else { return }
        try store.records.applyNow([
            .put(CredentialRows.metadata(record, taggedAs: tags), payload: nil, ifGeneration: record.generation)
        ])
        store.publish(.tagsChanged(self))
    }

    /// Removes the credential from the store. Does not prompt or use the hardware, and sends no request: see
    /// ``revoke(type:)``.
    public func remove() throws {
        try store.remove(self)
        automaticRefresh = false
    }

    // MARK: Helpers

    /// Runs `body` with the token's keys open. May prompt before `body`.
    func withOpen<R>(_ operation: String, _ body: () async throws -> R) async throws -> R {
        let protection = try protection(operation)
        do {
            return try await store.unlocked.withOpen(
                protection, for: store.prompt(operation), authorizedBy: store.presence, body)
        } catch let error as KeystoreError where error.code == .notFound {
            // The key is deleted together with its credential.
            guard try store.rows.exists(id) else { throw CredentialError.notFound(operation, id) }
            throw error
        }
    }

    /// The rows, read on the disk queue.
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
        throw KeystoreError.damaged(operation, "the token of the credential ‘\(id)’ is missing")
    }
}

extension CredentialStore {
    /// Runs `body` for an API that can't throw, and publishes its error.
    @discardableResult
    func reporting<R>(_ body: () throws -> R) -> R? {
        do {
            return try body()
        } catch {
            publish(.failed(error))
            return nil
        }
    }
}

extension Credential: Hashable {
    public static func == (left: Credential, right: Credential) -> Bool {
        left.id == right.id && left.store === right.store
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(id)
        hasher.combine(ObjectIdentifier(store))
    }
}
