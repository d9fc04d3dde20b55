public import Latchkey
internal import Synchronization

/// The credentials of one container: what the keychain is on iOS.
///
/// Make one when the program starts and name it once; then ``Credential``'s own functions need nothing else:
///
/// ```swift
/// try await CredentialStore.bootstrap(CredentialStore(records: records, presence: presence, transport: transport))
/// ```
///
/// What is synchronous touches memory and disk only; the hardware, the network and people are always awaited. Several
/// programs may use one container.
public final class CredentialStore: Sendable {
    /// The rows, and the keystore that protects them.
    public let records: RecordContainer
    /// What was chosen for this store.
    public let configuration: Configuration
    let presence: any PresenceAuthority
    let transport: any HTTPTransport
    let broadcast = Broadcast<CredentialEvent>()
    private let registry = Mutex(Registry())
    private static let bootstrapped = Mutex<CredentialStore?>(nil)

    /// What is in memory: one object for each credential and each client that somebody uses.
    private struct Registry {
        var credentials: [String: WeakCredential] = [:]
        var clients: [Token.Context: OAuth2Client] = [:]
        /// How many entries there were when the dead ones were taken out last.
        var swept = 64
    }

    private struct WeakCredential {
        weak var credential: Credential?
    }

    /// Makes a store. Nothing is touched yet.
    ///
    /// - Parameters:
    ///   - presence: Who asks the person for whom a token is protected.
    ///   - transport: How servers are reached.
    public init(
        records: RecordContainer, presence: any PresenceAuthority = NobodyPresent(), transport: any HTTPTransport,
        configuration: Configuration = Configuration()
    ) {
        self.records = records
        self.presence = presence
        self.transport = transport
        self.configuration = configuration
    }

    /// The store of ``Credential``'s own functions, once there is one.
    public static var shared: CredentialStore? { bootstrapped.withLock { $0 } }

    /// Opens a store and makes it the ``shared`` one.
    ///
    /// - Throws: What ``open()`` throws; there is then no new shared store.
    public static func bootstrap(_ store: CredentialStore) async throws(KeystoreError) {
        try await store.open()
        bootstrapped.withLock { $0 = store }
    }

    /// Opens what needs nobody to be present. One hardware operation; at the first start of all, two to make the key.
    /// Hardware that opens nothing without its owner asks for them.
    public func open() async throws(KeystoreError) {
        try await open(as: presence)
    }

    func open(as presence: any PresenceAuthority) async throws(KeystoreError) {
        try await records.open(.device, for: prompt("open the credentials"), authorizedBy: presence)
    }

    /// Everything that happens to the credentials from now on in this program, each after it is durable.
    public var events: AsyncStream<CredentialEvent> { broadcast.stream() }

    // MARK: In memory

    /// The one object for the credential.
    func credential(_ id: String) -> Credential {
        registry.withLock { registry in
            if let credential = registry.credentials[id]?.credential { return credential }
            if registry.credentials.count >= 2 * registry.swept {
                registry.credentials = registry.credentials.filter { $0.value.credential != nil }
                registry.swept = max(64, registry.credentials.count)
            }
            let credential = Credential(id: id, store: self)
            registry.credentials[id] = WeakCredential(credential: credential)
            return credential
        }
    }

    /// Lets nobody find the object again.
    func evict(_ id: String) {
        registry.withLock { $0.credentials[id] = nil }
    }

    /// The one client for the context.
    func client(_ context: Token.Context) -> OAuth2Client {
        registry.withLock { registry in
            if let client = registry.clients[context] { return client }
            let client = OAuth2Client(
                context, authentication: configuration.clients[context.clientID] ?? .none, transport: transport,
                now: configuration.now)
            registry.clients[context] = client
            return client
        }
    }

    func prompt(_ reason: String) -> PromptContext {
        PromptContext(reason: reason, container: records.name)
    }
}
