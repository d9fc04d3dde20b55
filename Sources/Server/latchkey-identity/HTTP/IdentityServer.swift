import FoundationEssentials
import Hummingbird
import HummingbirdCore
import LatchkeyRelyingParty
import Logging
import NIOCore

/// The HTTP server and its routes.
enum IdentityServer {
    /// - Parameters:
    ///   - host: The address to listen on.
    ///   - port: The port to listen on; 0 for any free port.
    ///   - onReady: Called once with the server's origin when the server listens.
    static func application(
        _ services: IdentityServices, host: String, port: Int, logger: Logger,
        onReady: @escaping @Sendable (String) async -> Void = { _ in }
    ) -> some ApplicationProtocol {
        Application(
            router: router(services),
            // The idle timeout closes a connection that has not sent a complete request head.
            server: .http1(configuration: .init(idleTimeout: .seconds(30))),
            configuration: ApplicationConfiguration(
                address: .hostname(host, port: port), serverName: "latchkey-identity"),
            onServerRunning: { channel in
                let port = channel.localAddress?.port ?? port
                services.origin.listening(on: host, port: port)
                if let origin = services.origin.current { await onReady(origin) }
            },
            logger: logger)
    }

    private static func router(_ services: IdentityServices) -> Router<IdentityContext> {
        // RFC 9110 section 9.1: every server supports HEAD.
        let router = Router(context: IdentityContext.self, options: .autoGenerateHeadEndpoints)
        if let nonces = services.dpop.nonces {
            router.add(middleware: NonceMiddleware(nonces: nonces))
        }
        router.add(middleware: RefusalMiddleware())

        let discovery = DiscoveryEndpoint(services: services)
        router.get("/.well-known/openid-configuration", use: discovery.document)
        router.get("/oauth2/jwks", use: discovery.keys)

        let login = LoginForm(services: services)
        let authorize = AuthorizeEndpoint(services: services, login: login)
        router.get("/oauth2/authorize", use: authorize.show)
        router.post("/oauth2/authorize", use: authorize.submit)
        router.post("/oauth2/challenge", use: ChallengeEndpoint(services: services).issue)
        router.post("/oauth2/token", use: TokenEndpoint(services: services).exchange)

        let sessions = SessionEndpoints(services: services)
        router.get("/oauth2/userinfo", use: sessions.userInfo)
        router.post("/oauth2/userinfo", use: sessions.userInfo)
        router.post("/oauth2/revoke", use: sessions.revoke)
        router.post(
            "/oauth2/app_session_token", use: AppSessionEndpoint(services: services).issue)
        router.post("/api/identity/biometric/remove", use: sessions.removeBiometric)

        LockerEndpoints(services: services).add(to: router)
        if let attestation = services.attestation {
            AttestationEndpoints(services: services, attestation: attestation).add(to: router)
        }

        let settings = SettingsPages(services: services, login: login)
        router.get("/") { _, _ in Response.seeOther("/settings") }
        router.get("/login", use: settings.showLogin)
        router.post("/login", use: settings.submitLogin)
        router.post("/logout", use: settings.logout)
        router.get("/settings", use: settings.showSettings)
        router.get("/settings/biometric", use: settings.showBiometric)
        router.post("/settings/biometric", use: settings.removeBiometric)
        router.get("/settings/locker", use: settings.showLocker)
        router.post("/settings/locker", use: settings.revokeEnrolment)
        return router
    }
}

/// The stores and settings that the endpoints share.
struct IdentityServices: Sendable {
    let configuration: ServerConfiguration
    let database: any SQLDatabase
    let origin: Origin
    let clock: WallClock
    let users: UserStore
    let sessions: WebSessionStore
    let appSessions: AppSessionStore
    let grants: GrantStore
    let challenges: any ChallengeStore
    let devices: DatabaseDeviceRegistry
    let revocation: DeviceRevocation
    let verifier: BiometricRequestVerifier
    let locker: LockerServices
    /// nil if the configuration has no member `attestation`.
    let attestation: AttestationServices?
    let dpop: DPoPVerifier
    let signer: IDTokenSigner
    let forms: FormGuard

    init(
        _ configuration: ServerConfiguration, database: any SQLDatabase, hasher: PasswordHasher,
        clock: WallClock? = nil, signingKeyCipher: SigningKeyCipher? = nil
    ) async throws {
        let clock = clock ?? database.clock
        self.configuration = configuration
        self.database = database
        self.clock = clock
        origin = Origin(configuration.publicOrigin)
        users = UserStore(database: database, hasher: hasher, clock: clock)
        sessions = WebSessionStore(database: database, clock: clock)
        appSessions = AppSessionStore(database: database, clock: clock)
        challenges = DatabaseChallengeStore(database, clock: clock)
        devices = DatabaseDeviceRegistry(database, project: IdentitySchema.project)
        verifier = BiometricRequestVerifier(challenges: challenges, devices: devices, clock: clock)
        let secrets = SecretStore(database: database, cipher: signingKeyCipher)
        // First, because it refuses a missing or wrong key file before a secret is stored.
        signer = try await IDTokenSigner(secrets)
        locker = try await LockerServices(
            database: database, challenges: challenges, secrets: secrets, clock: clock)
        revocation = DeviceRevocation(
            database: database, devices: devices, enrolments: locker.registry)
        attestation = try await AttestationServices(
            configuration, database: database, secrets: secrets, clock: clock)
        grants = GrantStore(
            database: database, clock: clock,
            policy: GrantPolicy(
                configuration: configuration, devices: devices, enrolments: locker.registry,
                attestation: attestation))
        let nonceKey: Data? =
            configuration.dpopNonceRequired
            ? try await secrets.value("dpop nonce") { .random(32) } : nil
        dpop = DPoPVerifier(
            nonces: try nonceKey.map { try DPoPNonces(key: $0, clock: clock) }, clock: clock)
        forms = FormGuard(key: try await secrets.value("form guard") { .random(32) })
    }

    /// The server's origin, the `iss` of its tokens.
    var issuer: String {
        get throws {
            guard let issuer = origin.current else { throw HTTPError(.serviceUnavailable) }
            return issuer
        }
    }
}

typealias IdentityContext = BasicRequestContext

/// The rest of the chain of middleware.
typealias Next = @concurrent (Request, IdentityContext) async throws -> Response
