import FoundationEssentials
import GRDB
import Hummingbird
import LatchkeyRelyingParty
import Logging

/// Everything that the endpoints work with.
struct IdentityServices: Sendable {
    let configuration: ServerConfiguration
    let origin: Origin
    let clock: WallClock
    let random: RandomSource
    let users: UserStore
    let sessions: WebSessionStore
    let grants: GrantStore
    let challenges: any ChallengeStore
    let devices: any DeviceRegistry
    let verifier: BiometricRequestVerifier
    /// nil when the configuration has it off.
    let locker: LockerServices?
    let signer: IDTokenSigner
    let forms: FormGuard
    let throttle: LoginThrottle
    let tokenLimit: RateLimiter
    let challengeLimit: RateLimiter
    let biometricLimit: RateLimiter
    let pages: PageRenderer

    init(
        _ configuration: ServerConfiguration, database: any DatabaseWriter, hasher: PasswordHasher,
        clock: WallClock = .system, random: RandomSource = .system
    ) async throws {
        self.configuration = configuration
        self.clock = clock
        self.random = random
        origin = Origin(configuration.publicOrigin)
        users = UserStore(database: database, hasher: hasher, clock: clock)
        sessions = WebSessionStore(database: database, clock: clock, random: random)
        grants = GrantStore(database: database, clock: clock, random: random)
        challenges = DatabaseChallengeStore(database, clock: clock, random: random)
        devices = DatabaseDeviceRegistry(database, project: configuration.project)
        verifier = BiometricRequestVerifier(challenges: challenges, devices: devices, clock: clock)
        let secrets = SecretStore(database: database)
        locker = try await LockerServices(
            configuration, database: database, challenges: challenges, secrets: secrets, clock: clock)
        signer = try await IDTokenSigner(configuration.idTokenSigningAlgorithm, secrets: secrets)
        forms = FormGuard(
            key: try await secrets.value("form guard") { [random] in Data(random.bytes(32)) }, random: random)
        throttle = LoginThrottle(clock: clock)
        tokenLimit = RateLimiter(limit: configuration.rateLimits.tokenPerAddress, per: 60, clock: clock)
        challengeLimit = RateLimiter(limit: configuration.rateLimits.challengePerAddress, per: 60, clock: clock)
        biometricLimit = RateLimiter(limit: configuration.rateLimits.biometricPerUser, per: 60, clock: clock)
        pages = try PageRenderer()
    }

    /// The origin, as tokens name it.
    var issuer: String {
        get throws {
            guard let issuer = origin.current else { throw HTTPError(.serviceUnavailable) }
            return issuer
        }
    }
}
