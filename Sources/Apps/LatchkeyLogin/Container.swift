internal import FoundationEssentials
public import Latchkey
internal import LatchkeyJOSE
public import LatchkeyOAuth

/// A user's login on this device: first in the browser, then with a hardware key that a PIN or
/// finger unlocks.
///
/// Everything stored belongs to the container's name. Use one container for each account. All calls
/// may be made from any task, and several processes may use one container.
///
/// A stored session or key belongs to the server and client that were configured when it was
/// stored. Every operation that would use it at another server throws ``LoginError`` with code
/// `conflict` before it uses the network or prompts. Plain HTTP on a loopback address is for
/// development: any local user who takes the port is that server.
///
/// A call throws ``LoginError``, or `KeystoreError` for errors of the hardware or the store.
/// Everything that can be checked without the user is checked before the first prompt.
public actor Container {
    /// The container's configuration.
    let configuration: ContainerConfiguration
    let endpoint: Endpoint
    /// The stored login must belong to this server and client.
    let configuredServer: LoginServer
    let records: RecordContainer
    let rows: LoginRows
    let unverified: UnverifiedRows
    let presence: any PresenceAuthority
    let browser: any Browser
    let transport: any HTTPTransport
    let observers = Broadcast<SessionStateChange>()

    /// The server's metadata, after the first operation that needs it.
    private var provider: ProviderMetadata?
    /// The session in memory. A stored session with a higher generation replaces it.
    var session: LoginSession?
    /// The generation of the latest session that is in memory only.
    var memoryGeneration = 0
    /// The prover of the key that was used last.
    var lastProver: DPoPProver?
    /// The running refresh, which all callers share.
    var refreshing: Task<LoginSession?, any Error>?

    /// - Parameters:
    ///   - records: The container's rows and keystore. The name is the container's.
    ///   - presence: Prompts for a PIN.
    ///   - browser: Opens the login page.
    ///   - transport: Sends requests to the server.
    /// - Throws: ``LoginError`` with code `invalidInput` for an address that is neither `https` nor
    ///   on this machine, or an empty client id.
    public init(
        _ configuration: ContainerConfiguration, records: RecordContainer,
        presence: any PresenceAuthority,
        browser: any Browser, transport: any HTTPTransport = CurlTransport()
    ) throws(LoginError) {
        guard let endpoint = Endpoint(configuration.endpoint), !endpoint.hasQuery else {
            throw LoginError(.invalidAddress(configuration.endpoint)).during("open a container")
        }
        guard
            let server = LoginServer(
                address: configuration.endpoint, clientID: configuration.clientID)
        else {
            throw LoginError.invalidInput("the client id is empty").during("open a container")
        }
        self.configuration = configuration
        self.endpoint = endpoint
        configuredServer = server
        self.records = records
        rows = LoginRows(records: records, server: server, presence: presence)
        unverified = UnverifiedRows(records: records)
        self.presence = presence
        self.browser = browser
        self.transport = transport
    }

    /// The container's name, which separates its login from those of other containers.
    public nonisolated var name: String { records.name }

    // MARK: State without a prompt

    // For a store that was copied from another machine, or that is used with another token, these
    // values are empty: see RecordContainer.isForeign().

    /// Whether biometric login is enabled on this device for the last user who logged in. Does not
    /// prompt.
    ///
    /// Reads the stored row only: also true if the key belongs to another server than the configured
    /// one, or if the hardware no longer has the key. ``authenticateBiometric(reason:)`` then throws
    /// `conflict` or `invalidated`.
    public func isBiometricEnabled() async throws -> Bool {
        guard let rows = try await unverified.shown, let owner = try await rows.key()?.userID else {
            return false
        }
        return try await rows.lastUser() == owner
    }

    /// The id of the last user who logged in on this device, or nil. Kept after a logout. Does not
    /// prompt.
    public var lastUserID: String? {
        get async throws { try await unverified.shown?.lastUser() }
    }

    /// ``lastUserID``, as Authgear's document spells it.
    public func getLastUserID() async throws -> String? { try await lastUserID }

    /// The keys for biometric login on this device: at most one. Does not prompt.
    public func listBiometricKeys() async throws -> [BiometricKey] {
        try await unverified.shown?.key().map { [$0] } ?? []
    }

    // MARK: Helpers

    var keystore: any Keystore { records.keystore }

    var now: Date { configuration.now() }

    /// The text of a prompt.
    ///
    /// - Parameter reason: The app's own text instead of the action and the server.
    func prompt(_ action: String, reason: String? = nil) -> PromptContext {
        PromptContext(reason: reason ?? "\(action) \(endpoint.authority)", container: name)
    }

    /// The server. Its metadata is read once for each container.
    ///
    /// - Parameters:
    ///   - session: The session whose tokens the requests contain; nil for none.
    ///   - isReachable: Reads the metadata again, so that the call fails without a network.
    func server(of session: LoginSession? = nil, isReachable: Bool = false) async throws
        -> LoginEndpoints
    {
        let connection = ServerConnection<LoginErrorCode>(
            transport: transport, prover: try await boundProver(of: session))
        let origins = configuration.additionalOrigins
        let metadata =
            if let provider, !isReachable { provider } else {
                try await LoginEndpoints.discover(
                    at: endpoint, additionalOrigins: origins, over: connection)
            }
        provider = metadata
        return LoginEndpoints(
            client: OAuthClient(
                metadata, clientID: configuration.clientID, additionalOrigins: origins,
                over: connection),
            device: configuration.device)
    }

    /// Builds a request and signs it with the key.
    func signedRequest(
        _ action: SignedLoginRequest.Action, _ challenge: LoginChallenge, with key: HardwareKey,
        audience: SignedLoginRequest.Audience?, for prompt: PromptContext,
        authorizedBy presence: PresenceSession
    ) async throws -> String {
        let request = SignedLoginRequest(
            action: action, challenge: challenge.token, key: key, device: configuration.device,
            issuedAt: now,
            audience: audience)
        let input = try request.signingInput()
        let signature = try await keystore.sign(
            MessageDigest(sha256: input.utf8), with: key, for: prompt, authorizedBy: presence)
        return JWS.compact(input, signature: signature)
    }

    /// Completes work even if the caller's task is cancelled, so that changes on the server are
    /// recorded.
    func finish<T: Sendable>(_ work: @escaping @Sendable () async throws -> T) async throws -> T {
        try await Task { try await work() }.value
    }
}
