public import FoundationEssentials
public import Latchkey
public import LatchkeyOAuth

/// The configuration of a container.
public struct ContainerConfiguration: Sendable {
    /// The server's address: an absolute `https` URL, or `http` on a loopback host.
    public var endpoint: String
    /// The OAuth client id of this program.
    public var clientID: String
    /// Where the session's tokens are stored.
    public var tokenStorage: TokenStorage
    /// The user verification for new biometric keys. If nil, a finger or the PIN if a finger can be verified when the key is
    /// made, otherwise the PIN.
    public var policy: AccessPolicy?
    /// The description of this machine in the server's list of devices.
    public var device: DeviceInfo
    /// Other origins that belong to the server, for example `https://oauth2.example.com`. Endpoints that get secrets must
    /// have the endpoint's origin or one of these, unless the server names its issuer in authorization responses (RFC 9207).
    public var additionalOrigins: Set<String>
    /// Decides whether a session and key that an earlier version stored without a server belong to the configured server.
    /// Show the server's name to the user and ask. The default is no: operations throw ``LoginError`` with code `conflict`.
    /// It is called at the first operation with such a store. After a yes, the rows name this server.
    public var bindsEarlierLogin: @Sendable (_ configured: LoginServer) async throws -> Bool
    /// The clock.
    public var now: @Sendable () -> Date

    /// - Parameters:
    ///   - endpoint: See ``endpoint``; ``Container`` checks it.
    ///   - clientID: See ``clientID``; not empty.
    ///   - policy: See ``policy``; an existing key keeps its policy.
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

/// Where a container stores the session's tokens. Keys and user ids are always in the store.
public enum TokenStorage: Hashable, Sendable {
    /// In the store, encrypted with a key that the hardware protects.
    case persistent
    /// In the container's memory only: the session ends with the program.
    case memory
}
