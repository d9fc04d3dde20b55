public import FoundationEssentials
public import Latchkey
public import LatchkeyOAuth

/// What a container needs to know.
public struct ContainerConfiguration: Sendable {
    /// The server's address: an absolute `https` URL, or `http` on a loopback host.
    public var endpoint: String
    /// The OAuth client id that the server knows this program by.
    public var clientID: String
    /// Where the session's tokens are kept.
    public var tokenStorage: TokenStorage
    /// Who must be present before a new biometric key is used. Nil for a finger or the PIN where a finger can be checked
    /// when the key is made, and for the PIN elsewhere.
    public var policy: AccessPolicy?
    /// How this machine presents itself to the server.
    public var device: DeviceInfo
    /// Other origins that belong to the server, for example `https://oauth2.example.com`. Endpoints that get secrets must
    /// have the endpoint's origin or one of these, unless the server names its issuer in authorization responses (RFC 9207).
    public var additionalOrigins: Set<String>
    /// Decides whether a session and key that an earlier version stored without naming their server belong to the configured
    /// server. Ask the user, and show the server's name; by default the answer is no, and operations throw ``LoginError``
    /// with code `conflict`. It is called at the first operation with such a store; after a yes, the rows name this server.
    public var bindsEarlierLogin: @Sendable (_ configured: LoginServer) async throws -> Bool
    /// The clock.
    public var now: @Sendable () -> Date

    /// - Parameters:
    ///   - endpoint: See ``endpoint``; checked when a container is made.
    ///   - clientID: See ``clientID``; not empty.
    ///   - policy: See ``policy``; a key keeps the policy with which it was made.
    public init(
        endpoint: String, clientID: String, tokenStorage: TokenStorage = .persistent, policy: AccessPolicy? = nil,
        device: DeviceInfo = .current(), additionalOrigins: Set<String> = [],
        bindsEarlierLogin: @escaping @Sendable (_ configured: LoginServer) async throws -> Bool = { _ in false },
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.endpoint = endpoint
        self.clientID = clientID
        self.tokenStorage = tokenStorage
        self.policy = policy
        self.device = device
        self.additionalOrigins = additionalOrigins
        self.bindsEarlierLogin = bindsEarlierLogin
        self.now = now
    }
}
