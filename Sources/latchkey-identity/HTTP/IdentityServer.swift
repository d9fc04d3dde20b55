import Hummingbird
import HummingbirdCore
import LatchkeyRelyingParty
import Logging
import NIOCore

/// The HTTP server: which endpoint answers what.
enum IdentityServer {
    /// - Parameters:
    ///   - host: The address to listen on. Loopback, unless an operator says otherwise.
    ///   - port: 0 for a free one.
    ///   - onReady: Called once, with the server's origin, when it listens.
    static func application(
        _ services: IdentityServices, host: String, port: Int, logger: Logger,
        onReady: @escaping @Sendable (String) -> Void = { _ in }
    ) -> some ApplicationProtocol {
        let limits = services.configuration.connections
        let proxies = services.configuration.trustedProxies.compactMap { IPAddress($0)?.network }
        let limiter = ConnectionLimiter(perAddress: limits.perAddress, total: limits.total, exempt: Set(proxies))
        return Application(
            router: router(services, limiter),
            // A connection without a complete head of a request is closed after this time.
            server: .http1(
                configuration: .init(
                    additionalChannelHandlers: [ConnectionHandler(limiter: limiter)], idleTimeout: .seconds(30))),
            configuration: ApplicationConfiguration(
                address: .hostname(host, port: port), serverName: "latchkey-identity"),
            onServerRunning: { channel in
                let port = channel.localAddress?.port ?? port
                services.origin.listening(on: host, port: port)
                if let origin = services.origin.current { onReady(origin) }
            },
            logger: logger)
    }

    private static func router(
        _ services: IdentityServices, _ limiter: ConnectionLimiter
    ) -> Router<IdentityContext> {
        let router = Router(context: IdentityContext.self)
        router.add(middleware: ConnectionMiddleware(limiter: limiter))
        router.add(middleware: RefusalMiddleware())
        router.add(middleware: HostMiddleware(origin: services.origin))
        router.add(middleware: ClientAddressMiddleware(trustedProxies: services.configuration.trustedProxies))

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
        if services.configuration.extensions.biometricRemoval {
            router.post("/api/identity/biometric/remove", use: sessions.removeBiometric)
        }

        if let locker = services.locker { LockerEndpoints(services: services, locker: locker).add(to: router) }

        let endSession = EndSessionEndpoint(services: services)
        router.get("/oauth2/end_session", use: endSession.show)
        router.post("/oauth2/end_session", use: endSession.submit)

        let settings = SettingsPages(services: services, login: login)
        router.get("/") { _, _ in Response.seeOther("/settings") }
        router.get("/login", use: settings.showLogin)
        router.post("/login", use: settings.submitLogin)
        router.post("/logout", use: settings.logout)
        router.get("/settings", use: settings.showSettings)
        router.get("/settings/biometric", use: settings.showBiometric)
        router.post("/settings/biometric", use: settings.removeBiometric)
        if let locker = services.locker {
            router.get("/settings/locker") { request, _ in try await settings.showLocker(request, locker) }
            router.post("/settings/locker") { request, context in
                try await settings.revokeEnrolment(request, context, locker)
            }
        }
        return router
    }
}
