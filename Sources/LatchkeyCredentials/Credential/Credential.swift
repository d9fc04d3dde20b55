public import FoundationEssentials
public import Latchkey
internal import Synchronization

/// A stored token and what can be done with it.
///
/// There is one object for each credential: whoever finds it again gets the same one. The token itself is read when it is
/// needed, and only then does it matter what protects it.
public final class Credential: Sendable, Identifiable {
    /// A token that ends within so many seconds is refreshed before it is used, unless the store says otherwise.
    public static let refreshGraceInterval: TimeInterval = 300

    /// The token's id.
    public let id: String
    /// The store that it is in.
    public let store: CredentialStore
    let work = Mutex(Work())

    /// What is under way.
    struct Work {
        /// The refresh that everybody shares.
        var refreshing: Task<Token, any Error>?
        /// A token that the server has given and the disk has not taken yet, and the generation of the row that it
        /// replaces.
        var unsaved: (token: Token, replacing: Int)?
        /// What refreshes by itself.
        var automatic: Task<Void, Never>?
    }

    init(id: String, store: CredentialStore) {
        self.id = id
        self.store = store
    }

    deinit {
        work.withLock { $0.automatic?.cancel() }
    }

    // MARK: What is known of it

    /// What is known of the credential without opening the token, as it is stored now.
    ///
    /// - Throws: `KeystoreError`; `notFound` when the credential was removed.
    public var metadata: Token.Metadata {
        get throws(KeystoreError) {
            guard let record = try store.records.metadataNow(CredentialRows.id(id)) else { throw store.missing(id) }
            return try CredentialRows.metadata(record)
        }
    }

    /// The app's names and values for the credential; none when they can't be read. Setting them stores them. To hear
    /// whether that worked use ``setTags(_:)``, or look out for ``CredentialEvent/failed(_:)``.
    public var tags: [String: String] {
        get { (try? metadata.tags) ?? [:] }
        set {
            do throws(KeystoreError) {
                try setTagsNow(newValue)
            } catch {
                store.tell(.failed(error))
            }
        }
    }

    /// Replaces all tags. What protects the token stays as it is, and nobody is asked.
    public func setTags(_ tags: [String: String]) async throws(KeystoreError) {
        try await store.open()
        try setTagsNow(tags)
    }

    private func setTagsNow(_ tags: [String: String]) throws(KeystoreError) {
        guard let (record, _) = try store.records.readNow(CredentialRows.id(id)) else { throw store.missing(id) }
        var changed = record
        changed.attributes = try CredentialRows.tagged(record.attributes, tags)
        try store.records.applyNow([.put(changed, payload: nil, ifGeneration: record.generation)])
        store.tell(.tagsChanged(self))
    }

    // MARK: The token

    /// The token as it is stored now, from memory and disk.
    ///
    /// - Throws: `KeystoreError`; `wrongState` when it is locked: ``unlock()`` it first; `notFound` when the credential
    ///   was removed, `damaged` when what is stored is not what was stored.
    public var token: Token {
        get throws(KeystoreError) { try stored().token }
    }

    /// Opens the token, and all others of the same policy. Somebody is asked if the policy says so and it isn't open yet.
    @discardableResult
    public func unlock() async throws(KeystoreError) -> Token {
        let metadata = try metadata
        let consent = SingleConsent(store.presence)
        try await store.records.open(
            CredentialRows.protection(metadata.security),
            for: store.prompt("open the credential of \(metadata.context.issuer)"), authorizedBy: consent)
        consent.confirm()
        try await store.open(as: consent)
        return try token
    }

    /// Shuts the token, and all others of the same policy. A token that nobody need be present for can't be shut.
    public func lock() throws(KeystoreError) {
        let security = try metadata.security
        guard security.requirement != .none else { return }
        store.records.lock(prefix: CredentialRows.protection(security).name)
    }

    /// The client that talks to the token's server.
    public var oauth2: OAuth2Client {
        get throws(KeystoreError) { store.client(try metadata.context) }
    }

    /// Removes the credential from this machine. The server is told nothing: see ``revoke(type:)``.
    public func remove() async throws(KeystoreError) { try await store.remove(self) }

    /// ``remove()`` on the caller's own thread.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func remove() throws(KeystoreError) { try store.remove(self) }

    /// The token and where its row stands.
    func stored() throws(KeystoreError) -> (token: Token, record: Record) {
        guard let (record, payload) = try store.records.readNow(CredentialRows.tokenID(id)) else {
            throw store.missing(id)
        }
        return (try CredentialRows.token(payload, id: id), record)
    }
}

extension Credential: Hashable {
    /// Whether both are the same credential, of the same store.
    public static func == (left: Credential, right: Credential) -> Bool {
        left.id == right.id && left.store === right.store
    }

    public func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

extension Credential: CustomStringConvertible, CustomReflectable {
    public var description: String { "‹credential \(id)›" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
