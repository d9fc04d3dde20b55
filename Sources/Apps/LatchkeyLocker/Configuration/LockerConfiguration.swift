public import FoundationEssentials
public import Latchkey
public import LatchkeyOAuth

/// The configuration of a ``Locker``.
public struct LockerConfiguration: Sendable {
    package var issuer: String
    package var clientID: String
    package var redirectURI: String?
    package var scopes: [String]
    package var backgroundScopes: [String]?
    package var records: RecordContainer
    package var presence: any PresenceAuthority
    package var channel: any StrongAuthenticationChannel
    package var transport: any HTTPTransport
    package var easyAccessPolicy: AccessPolicy?
    package var levelShares: LevelSharePolicy
    package var secretExhaustion: SecretExhaustion
    package var maximumAttempts: Int
    package var offlineVerification: OfflineVerification?
    package var cachedSecretLife: Duration?
    package var sessionIdleTimeout: Duration?
    package var logger: (any Logger)?
    package var device: DeviceInfo
    package var disclosesHardware: @Sendable (AttestationDisclosure) async throws -> Bool
    package var now: @Sendable () -> Date

    /// Makes a configuration.
    ///
    /// - Parameters:
    ///   - issuer: The server's address: an absolute `https` URL, or `http` on a loopback host.
    ///   - clientID: The app's OAuth client id at the server; not empty.
    ///   - records: The container that stores the enrolment. Its keystore is the device's hardware.
    ///   - presence: Prompts for the secret of easy access.
    ///   - channel: How the user logs in at the server.
    ///   - transport: How the server is reached.
    ///   - redirectURI: The redirect URI of the app's own channel. ``BrowserChannel`` does not need
    ///     it.
    ///   - scopes: The scopes of an active session.
    ///   - backgroundScopes: The scopes of background access; nil for all that the server offers.
    ///   - easyAccessPolicy: The user verification that the hardware requires for easy access:
    ///     `.pin`, `.userPresence` or `.biometryAny`. nil selects it when easy access is enabled or
    ///     changed: `.userPresence` if a fingerprint can be checked on this machine then, otherwise
    ///     `.pin`.
    ///   - levelShares: Whether the server must store shares of the level keys.
    ///   - secretExhaustion: What happens after `maximumAttempts` wrong secrets in a row.
    ///   - maximumAttempts: How many wrong secrets in a row are allowed, with and without a network;
    ///     at least 1. The locker counts them itself. The hardware counts too, and can refuse
    ///     secrets earlier.
    ///   - offlineVerification: The limits of offline verification; nil turns it off.
    ///   - cachedSecretLife: How long a correct secret stays in memory, so that the next start does
    ///     not prompt; nil turns this off.
    ///   - sessionIdleTimeout: The time without use after which a session is locked; nil for never.
    ///     See ``Locker/noteUse()``.
    ///   - logger: Receives the log messages of all levels. nil writes to standard error in debug
    ///     builds, and discards the messages in other builds.
    ///   - device: The description of this machine that the server stores.
    ///   - disclosesHardware: Decides whether the server may get a proof that keys are in this
    ///     hardware, if it requires one. Show the text to the user. The default is no: an enrolment
    ///     at such a server throws ``ErsteGroupAuthError`` with code `refused`. It is called once
    ///     for each server with a TPM, and for each key with a token.
    ///   - now: The clock.
    public init(
        issuer: String, clientID: String, records: RecordContainer, presence: any PresenceAuthority,
        channel: any StrongAuthenticationChannel, transport: any HTTPTransport = CurlTransport(),
        redirectURI: String? = nil,
        scopes: [String] = ["openid", "https://authgear.com/scopes/full-access"],
        backgroundScopes: [String]? = nil,
        easyAccessPolicy: AccessPolicy? = nil, levelShares: LevelSharePolicy = .required,
        secretExhaustion: SecretExhaustion = .disableEasyAccess, maximumAttempts: Int = 10,
        offlineVerification: OfflineVerification? = nil, cachedSecretLife: Duration? = nil,
        sessionIdleTimeout: Duration? = nil,
        logger: (any Logger)? = nil, device: DeviceInfo = .current(),
        disclosesHardware: @escaping @Sendable (AttestationDisclosure) async throws -> Bool = { _ in
            false
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
        self.maximumAttempts = maximumAttempts
        self.offlineVerification = offlineVerification
        self.cachedSecretLife = cachedSecretLife
        self.sessionIdleTimeout = sessionIdleTimeout
        self.logger = logger
        self.device = device
        self.disclosesHardware = disclosesHardware
        self.now = now
    }
}

/// What to do if a server does not store shares of the level keys.
public enum LevelSharePolicy: Hashable, Sendable {
    /// Refuse to enrol.
    case required
    /// Enrol. Only the device's own keys protect `background` and `active` then: the program checks
    /// that a session is active, and cryptography does not enforce it.
    case whenOffered
}

/// Limits for verifying the user without a network.
public struct OfflineVerification: Hashable, Sendable {
    let maximumAttempts: Int
    let maximumAge: Duration

    /// - Parameters:
    ///   - maximumAttempts: After how many wrong secrets in a row, with and without a network,
    ///     offline verification is refused; at least 1. The hardware counts them too.
    ///   - maximumAge: How long after the last start with a network offline verification is
    ///     allowed; a week by default.
    public init(maximumAttempts: Int = 2, maximumAge: Duration = .seconds(7 * 86_400)) {
        self.maximumAttempts = maximumAttempts
        self.maximumAge = maximumAge
    }
}

/// What happens to an enrolment after too many wrong secrets in a row (`maximumAttempts` of
/// ``LockerConfiguration``).
///
/// A lockout of the hardware deletes nothing, because other users of the hardware can cause it: the
/// hardware refuses secrets until its lockout time is over, or until an administrator unlocks it.
public enum SecretExhaustion: Hashable, Sendable, CaseIterable {
    /// Easy access is disabled, and the device stays enrolled. The next start requires strong
    /// authentication.
    case disableEasyAccess
    /// Nothing. Only the hardware limits the attempts.
    case wait
    /// The enrolment is destroyed, as by ``Locker/endAuthSession(mode:)``.
    case destroyEnrolment
}

/// Options of one session start.
public struct StartAuthSessionOptions: Sendable {
    let requiredLevel: RequiredLevel
    let usesCachedSecret: Bool
    let presence: (any PresenceAuthority)?
    let authorize: (@Sendable (StrongAuthenticationRequest) async throws -> AuthorizationCode)?

    /// Makes options. The defaults start the session in the quickest way.
    ///
    /// - Parameters:
    ///   - requiredLevel: The authentication that the session requires.
    ///   - usesCachedSecret: Whether a secret in the cache (`cachedSecretLife` of
    ///     ``LockerConfiguration``) can be used instead of a prompt.
    ///   - presence: Prompts for the secret this time; nil uses the configured authority.
    ///   - channel: The app's own way to let the user log in this time, as
    ///     ``StrongAuthenticationChannel/authorize(_:)``; nil uses the configured channel.
    public init(
        requiredLevel: RequiredLevel = .any, usesCachedSecret: Bool = true,
        presence: (any PresenceAuthority)? = nil,
        channel: (@Sendable (StrongAuthenticationRequest) async throws -> AuthorizationCode)? = nil
    ) {
        self.requiredLevel = requiredLevel
        self.usesCachedSecret = usesCachedSecret
        self.presence = presence
        authorize = channel
    }
}

/// The authentication that a session requires.
public enum RequiredLevel: Hashable, Sendable, CaseIterable {
    /// Easy access if it is enabled, otherwise strong authentication.
    case any
    /// Easy access only.
    case easyAccess
    /// Strong authentication.
    case strong
}
