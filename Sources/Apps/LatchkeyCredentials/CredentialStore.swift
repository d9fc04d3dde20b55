internal import Dispatch
public import Latchkey
public import LatchkeyOAuth
internal import Synchronization

/// The stored tokens of an app's users, in one container.
///
/// Tokens are encrypted with keys that the hardware protects. Tags and claims can be searched
/// without the hardware. Calls without `async` use only memory and disk, on the caller's thread.
/// They require one earlier call of ``bootstrap(_:)``. All calls may be made from any task and
/// thread, and several processes may use one store.
///
/// A call throws ``CredentialError``, or `KeystoreError` for errors of the hardware or the store.
public final class CredentialStore: Sendable {
    let configuration: CredentialConfiguration
    package let records: RecordContainer
    let rows: CredentialRows
    let presence: any PresenceAuthority
    let transport: any HTTPTransport
    let broadcast = Broadcast<CredentialEvent>()
    let unlocked: UnlockCache
    let disk = DiskThread()
    let refreshes = RefreshCoordinator()
    let providers: ProviderCache
    let keys: CredentialKeys
    private let registry = CredentialRegistry()

    /// - Parameters:
    ///   - records: The store's rows and keystore. The name is the container's.
    ///   - presence: Prompts for credentials with a policy.
    ///   - transport: Sends requests to servers.
    public init(
        records: RecordContainer, presence: any PresenceAuthority = NobodyPresent(),
        transport: any HTTPTransport = CurlTransport(),
        configuration: CredentialConfiguration = CredentialConfiguration()
    ) {
        self.records = records
        rows = CredentialRows(records: records)
        self.presence = presence
        self.transport = transport
        self.configuration = configuration
        unlocked = UnlockCache(records: records)
        let clock = configuration.clock
        providers = ProviderCache { clock.now }
        keys = CredentialKeys(records: records) { clock.now }
    }

    /// Opens a store and makes it ``Credential/storage``. Call it when the app starts. One hardware
    /// operation, without a prompt.
    ///
    /// - Throws: `KeystoreError`: `unavailable` without the hardware. The store is then not set.
    public static func bootstrap(_ store: CredentialStore) async throws {
        try await store.open()
        Credential.storage = store
    }

    /// Unseals the key of the credentials without a policy: one hardware operation, without a
    /// prompt.
    package func open() async throws {
        do throws(KeystoreError) {
            try await records.open(
                .device, for: prompt("use the credentials"), authorizedBy: NobodyPresent())
        } catch {
            throw error.during("open the credentials")
        }
        // Completes revocations that a crash interrupted. Those that fail stay recorded.
        try? await records.finishRevocations()
    }

    /// Clears the keys of credentials with a policy, and every user verification that could still
    /// be reused.
    public func lock() {
        records.keystore.endReuse()
        records.lock(prefix: UnlockCache.prefix)
    }

    /// The events from now on, in this process.
    public var events: AsyncStream<CredentialEvent> { broadcast.stream() }

    // MARK: Credentials

    /// See ``Credential/with(id:prompt:)``.
    package func credential(id: String) throws -> Credential? {
        try rows.exists(id) ? credential(stored: id) : nil
    }

    package var allIDs: [String] {
        get throws { try rows.ids }
    }

    package var allCredentials: [Credential] {
        get throws { try rows.ids.map(credential(stored:)) }
    }

    /// Removes a credential and all of its rows, and the key to which no other credential is bound.
    /// Does not prompt or use the hardware. If it was the default, there is no default afterwards. If its key is revocable, the hardware revokes it
    /// soon after, or when a store is opened the next time. Then no copy of the store opens the
    /// credential.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` if it is not stored.
    func remove(_ credential: Credential) throws {
        let (wasDefault, key) = try changingDefault {
            guard try rows.exists(credential.id) else {
                throw CredentialError.notFound(credential.id)
            }
            var changes = CredentialRows.deletion(credential.id)
            let existing = try rows.knownDefault
            let wasDefault = existing?.id == credential.id
            if wasDefault {
                changes.append(
                    .delete(CredentialRows.defaultID, ifGeneration: existing?.generation))
            }
            let key = try keys.deletion(with: CredentialRows.metadataID(credential.id))
            if let key { changes.append(key.change) }
            try records.applyNow(
                changes, classes: [.drop(prefix: CredentialRows.classes(credential.id).prefix)])
            return (wasDefault, key?.key)
        }
        if let key { keys.discardSoon(key) }
        records.finishRevocationsSoon()
        registry.forget(credential.id)
        credential.release()
        refreshes.setUnsaved(nil, credential.id)
        publish(.removed(credential))
        if wasDefault { publish(.defaultChanged(nil)) }
    }

    // MARK: Helpers

    /// The object for a stored credential.
    func credential(stored id: String) -> Credential {
        registry.credential(id) { Credential(id: id, store: self) }
    }

    /// Publishes an event after its change is stored.
    func publish(_ event: CredentialEvent) {
        broadcast.tell(event)
        CredentialNotification.post(event)
    }

    func prompt(_ reason: String) -> PromptContext {
        PromptContext(reason: reason, container: records.name)
    }
}

/// Weak references to the ``Credential`` objects, one for each id.
final class CredentialRegistry: Sendable {
    private struct Entry {
        weak var credential: Credential?
    }

    private struct State {
        var entries: [String: Entry] = [:]
        /// If there are more entries than this, entries without an object are removed.
        var limit = 1000
    }

    private let state = Mutex(State())

    func credential(_ id: String, make: () -> Credential) -> Credential {
        state.withLock { state in
            if let existing = state.entries[id]?.credential { return existing }
            let made = make()
            state.entries[id] = Entry(credential: made)
            if state.entries.count > state.limit {
                state.entries = state.entries.filter { $0.value.credential != nil }
                state.limit = max(1000, 2 * state.entries.count)
            }
            return made
        }
    }

    func forget(_ id: String) {
        state.withLock { $0.entries[id] = nil }
    }
}

/// A serial queue for calls that block on the disk, off the cooperative thread pool.
final class DiskThread: Sendable {
    private let queue = DispatchQueue(label: "latchkey.credentials.disk")

    func run<R: Sendable>(_ body: @escaping @Sendable () throws -> R) async throws -> R {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Result(catching: body)) }
        }
    }
}
