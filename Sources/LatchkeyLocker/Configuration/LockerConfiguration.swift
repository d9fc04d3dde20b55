public import FoundationEssentials
public import Latchkey
public import LatchkeyHTTP
public import LatchkeyOAuth

/// What a locker needs to know.
public struct LockerConfiguration: Sendable {
    /// The server's address: an absolute `https` URL, or `http` on a loopback host.
    public var issuer: String
    /// The OAuth client id that the server knows this program by.
    public var clientID: String
    /// Where the answers of a channel of the app's own go; not needed for ``BrowserChannel``.
    public var redirectURI: String?
    /// The scopes of an active session.
    public var scopes: [String]
    /// The scopes of background access; nil for all that the server offers.
    public var backgroundScopes: [String]?
    /// Where the enrolment is stored. Its keystore is the device's hardware.
    public var records: RecordContainer
    /// Who asks the person for the secret.
    public var presence: any PresenceAuthority
    /// How the user logs in at the server.
    public var channel: any StrongAuthenticationChannel
    /// How the server is reached.
    public var transport: any HTTPTransport
    /// What the hardware demands for easy access: `.pin`, `.userPresence` or `.biometryAny`.
    public var easyAccessPolicy: AccessPolicy
    /// Whether the server must keep a share of the levels' keys.
    public var levelShares: LevelSharePolicy
    /// What follows the last wrong secret that the hardware takes.
    public var secretExhaustion: SecretExhaustion
    /// nil where nobody may be recognised without the network.
    public var offlineVerification: OfflineVerification?
    /// For how long a right secret is kept in memory, to serve again without a prompt; nil for not at all.
    public var cachedSecretLife: Duration?
    /// After how long without use a session is locked; nil for never. See ``Locker/noteUse()``.
    public var sessionIdleTimeout: Duration?
    /// Who records messages; nil for standard error in debug builds and nobody in others.
    public var logger: (any Logger)?
    /// The least that is recorded.
    public var logLevel: LogLevel
    /// How this machine presents itself to the server.
    public var device: DeviceInfo
    /// Runs callbacks; on the main actor by default. The async calls don't use it.
    public var deliver: @Sendable (@escaping @Sendable () -> Void) -> Void
    /// The clock.
    public var now: @Sendable () -> Date

    /// - Parameters:
    ///   - issuer: See ``issuer``.
    ///   - clientID: See ``clientID``; not empty.
    public init(
        issuer: String, clientID: String, records: RecordContainer, presence: any PresenceAuthority,
        channel: any StrongAuthenticationChannel, transport: any HTTPTransport = AsyncHTTPTransport(),
        redirectURI: String? = nil,
        scopes: [String] = ["openid", "https://authgear.com/scopes/full-access"], backgroundScopes: [String]? = nil,
        easyAccessPolicy: AccessPolicy = .pin, levelShares: LevelSharePolicy = .required,
        secretExhaustion: SecretExhaustion = .disableEasyAccess,
        offlineVerification: OfflineVerification? = nil, cachedSecretLife: Duration? = nil,
        sessionIdleTimeout: Duration? = nil,
        logger: (any Logger)? = nil, logLevel: LogLevel = .info, device: DeviceInfo = .current(),
        deliver: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void = { work in
            Task { @MainActor in work() }
        },
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.issuer = issuer
        self.clientID = clientID
        self.records = records
        self.presence = presence
        self.channel = channel
        self.transport = transport
        self.redirectURI = redirectURI
        self.scopes = scopes
        self.backgroundScopes = backgroundScopes
        self.easyAccessPolicy = easyAccessPolicy
        self.levelShares = levelShares
        self.secretExhaustion = secretExhaustion
        self.offlineVerification = offlineVerification
        self.cachedSecretLife = cachedSecretLife
        self.sessionIdleTimeout = sessionIdleTimeout
        self.logger = logger
        self.logLevel = logLevel
        self.device = device
        self.deliver = deliver
        self.now = now
    }
}
