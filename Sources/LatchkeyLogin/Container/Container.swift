internal import FoundationEssentials
public import Latchkey
public import LatchkeyHTTP
public import LatchkeyOAuth

/// A user's login on this device: in the browser, then with a key that the hardware holds and a person unlocks.
///
/// Everything stored is scoped by the container's name. For several accounts make several containers. All calls may
/// be made from any task, and several processes may use one container.
///
/// A stored session or key belongs to the server and client that were configured when it was stored. Every operation that
/// would use it at another server throws ``LoginError`` with code `conflict` before it uses the network or prompts. Plain
/// HTTP on a loopback address is for development: any local user who takes the port is that server.
///
/// A call throws ``LoginError``, or `KeystoreError` when it is the hardware or the store that says no. Nothing is
/// shown to anybody before everything that can fail without a person has been checked.
public actor Container {
    /// What it was made with.
    public nonisolated let configuration: ContainerConfiguration
    let endpoint: Endpoint
    /// The stored login must belong to this server and client.
    let configuredServer: LoginServer
    let records: RecordContainer
    let rows: LoginRows
    let metadata: LoginMetadata
    let presence: any PresenceAuthority
    let browser: any Browser
    let wire: Wire
    let observers = SessionObservers()

    /// The server's discovery document, once it was read.
    private var document: DiscoveryDocument?
    /// The session as it is in memory; where tokens are stored, only as good as its generation.
    var session: Session?
    /// Counts the sessions that are in memory only.
    var memoryGeneration = 0
    /// The refresh that is under way, which everybody shares.
    var refreshing: Task<Session?, any Error>?

    /// - Parameters:
    ///   - records: Where the container's rows are. Its keystore makes and uses the keys, and its name is the
    ///     container's.
    ///   - presence: Who asks the person for a PIN.
    ///   - browser: What shows the login page.
    ///   - transport: How the server is reached.
    /// - Throws: ``LoginError`` with code `invalidInput` for an address that no secret may be sent to, or no client id.
    public init(
        _ configuration: ContainerConfiguration, records: RecordContainer, presence: any PresenceAuthority,
        browser: any Browser, transport: any HTTPTransport = AsyncHTTPTransport()
    ) throws(LoginError) {
        guard let endpoint = Endpoint(configuration.endpoint), !endpoint.path.contains("?") else {
            throw .invalidInput(
                "open a container", "‘\(configuration.endpoint)’ is neither an https address nor on this machine")
        }
        guard let server = LoginServer(address: configuration.endpoint, clientID: configuration.clientID) else {
            throw .invalidInput("open a container", "the client id is empty")
        }
        self.configuration = configuration
        self.endpoint = endpoint
        configuredServer = server
        self.records = records
        rows = LoginRows(records: records, server: server, presence: presence)
        metadata = LoginMetadata(records: records)
        self.presence = presence
        self.browser = browser
        wire = Wire(transport: transport)
    }

    /// The container's name.
    public nonisolated var name: String { records.name }

    // MARK: What can be asked at any time

    /// Whether the last user who logged in has biometric login enabled on this device. Needs no hardware.
    public var isBiometricEnabled: Bool {
        get async throws {
            guard let owner = try await metadata.key()?.userID else { return false }
            return try await metadata.lastUser() == owner
        }
    }

    /// The id of the last user who logged in, or nil. Kept after a logout. Needs no hardware.
    public var lastUserID: String? {
        get async throws { try await metadata.lastUser() }
    }

    /// The id of the user to whom the biometric key belongs, or nil. Needs no hardware.
    public var biometricUserID: String? {
        get async throws { try await metadata.key()?.userID }
    }

    /// The keys with which somebody can log in: at most one. Needs no hardware.
    public func listBiometricKeys() async throws -> [BiometricKey] {
        try await metadata.key().map { [$0] } ?? []
    }

    // MARK: For the other parts

    var keystore: any Keystore { records.keystore }

    var now: Date { configuration.now() }

    /// What a person is told when asked.
    func prompt(_ action: String) -> PromptContext {
        PromptContext(reason: "\(action) \(endpoint.authority)", container: name)
    }

    /// The server, for one operation. Its discovery document is read once in the life of the container.
    func server(for operation: String) async throws -> IdentityServer {
        let document =
            if let document {
                document
            } else {
                try await wire.discover(endpoint, additionalOrigins: configuration.additionalOrigins, operation)
            }
        self.document = document
        return IdentityServer(
            operation: operation, clientID: configuration.clientID, device: configuration.device, document: document,
            wire: wire)
    }

    /// Builds the request and has the key sign it.
    func signedRequest(
        _ action: BiometricRequest.Action, _ challenge: Challenge, _ key: HardwareKey,
        for audience: BiometricRequest.Audience?, _ prompt: PromptContext, _ consent: SingleConsent
    ) async throws -> String {
        let request = BiometricRequest(
            action: action, challenge: challenge.token, key: key, device: configuration.device, issuedAt: now,
            audience: audience)
        let input = try request.signingInput()
        let signature = try await keystore.sign(
            MessageDigest(sha256: input.utf8), with: key, for: prompt, authorizedBy: consent)
        consent.confirm()
        return JWS.compact(input, signature: signature)
    }

    /// Carries something to its end although the caller has lost interest: what the server has done already must be
    /// written down.
    func finish<T: Sendable>(_ work: @escaping @Sendable () async throws -> T) async throws -> T {
        try await Task { try await work() }.value
    }
}
