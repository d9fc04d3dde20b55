public import Latchkey
public import LatchkeyHTTP

/// The credentials of one container: what an app keeps of its users' tokens.
///
/// Tokens are encrypted under keys that the hardware holds; tags and claims can be searched without it. Calls without
/// `async` touch memory and disk only, on the caller's thread: they need ``open()`` once, and no hardware after that.
/// All calls may be made from any task and thread, and several processes may use one store.
///
/// A call throws ``CredentialError``, or `KeystoreError` when it is the hardware or the store that says no.
public final class CredentialStore: Sendable {
    /// What it was made with.
    public let configuration: CredentialConfiguration
    let records: RecordContainer
    let rows: CredentialRows
    let presence: any PresenceAuthority
    let transport: any HTTPTransport
    let broadcast = Broadcast<CredentialEvent>()
    let gates: Gates
    let disk = DiskThread()
    let refreshes = RefreshDesk()
    let servers: ServerDirectory
    private let registry = CredentialRegistry()

    /// - Parameters:
    ///   - records: Where the rows are, and the keystore that protects them. Its name is the container's.
    ///   - presence: Who asks the person, for credentials whose policy wants one.
    ///   - transport: How servers are reached.
    public init(
        records: RecordContainer, presence: any PresenceAuthority = NobodyPresent(),
        transport: any HTTPTransport = AsyncHTTPTransport(),
        configuration: CredentialConfiguration = CredentialConfiguration()
    ) {
        self.records = records
        rows = CredentialRows(records: records)
        self.presence = presence
        self.transport = transport
        self.configuration = configuration
        gates = Gates(records: records)
        servers = ServerDirectory(transport: transport, clock: configuration.clock)
    }

    /// Opens a store and makes it ``Credential/storage``: what an app does when it starts.
    public static func bootstrap(_ store: CredentialStore) async throws {
        try await store.open()
        Credential.storage = store
    }

    /// Has the hardware open what is bound to the device only: one hardware operation, once, and nobody is asked.
    public func open() async throws {
        try await records.open(.device, for: prompt("use the credentials"), authorizedBy: NobodyPresent())
        // What a crash left for the hardware to do is in nobody's way; what it can't do now stays noted.
        try? await records.finishRevocations()
    }

    /// Forgets the keys of everything for which somebody had to be present, and every proof that would still serve.
    public func lock() {
        records.keystore.endReuse()
        records.lock(prefix: Gates.prefix)
    }

    /// What happens from now on, in this process.
    public var events: AsyncStream<CredentialEvent> { broadcast.stream() }

    // MARK: Credentials

    /// The credential of this id; the same object as long as somebody holds it.
    ///
    /// - Returns: nil when there is none.
    public func credential(id: String) throws -> Credential? {
        try rows.exists(id) ? credential(stored: id) : nil
    }

    /// The ids of all credentials, in the order in which they were stored. Nothing else of them is looked at.
    public var allIDs: [String] {
        get throws { try rows.ids }
    }

    /// Every credential, in the order in which they were stored. No token is opened.
    public var allCredentials: [Credential] {
        get throws { try rows.ids.map(credential(stored:)) }
    }

    /// Removes a credential, with all that is stored of it. Needs no hardware, and asks nobody. The default is then
    /// none if it was the default. Where the hardware can take back what opens the credential, it does so soon after, or
    /// when a store is opened the next time: no copy of the store opens it any more then.
    ///
    /// - Throws: ``CredentialError`` with code `notFound` when it is gone already.
    public func remove(_ credential: Credential) throws {
        let wasDefault = try changingDefault {
            guard try rows.exists(credential.id) else {
                throw CredentialError.notFound("remove the credential", credential.id)
            }
            var changes = CredentialRows.deletion(credential.id)
            let standing = try rows.knownDefault
            let wasDefault = standing?.id == credential.id
            if wasDefault { changes.append(.delete(CredentialRows.defaultID, ifGeneration: standing?.generation)) }
            try records.applyNow(changes, classes: [.drop(prefix: CredentialRows.classes(credential.id).prefix)])
            return wasDefault
        }
        records.finishRevocationsSoon()
        registry.forget(credential.id)
        refreshes.setUnsaved(nil, credential.id)
        tell(.removed(credential))
        if wasDefault { tell(.defaultChanged(nil)) }
    }

    // MARK: For the other parts

    /// The one object for a stored credential.
    func credential(stored id: String) -> Credential {
        registry.credential(id) { Credential(id: id, store: self) }
    }

    /// Tells of what is durable now.
    func tell(_ event: CredentialEvent) {
        broadcast.tell(event)
        CredentialNotification.post(event)
    }

    func prompt(_ reason: String) -> PromptContext {
        PromptContext(reason: reason, container: records.name)
    }
}
