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
    /// The clock.
    public var now: @Sendable () -> Date

    /// - Parameters:
    ///   - endpoint: See ``endpoint``; checked when a container is made.
    ///   - clientID: See ``clientID``; not empty.
    ///   - policy: See ``policy``; a key keeps the policy with which it was made.
    public init(
        endpoint: String, clientID: String, tokenStorage: TokenStorage = .persistent, policy: AccessPolicy? = nil,
        device: DeviceInfo = .current(), now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.endpoint = endpoint
        self.clientID = clientID
        self.tokenStorage = tokenStorage
        self.policy = policy
        self.device = device
        self.now = now
    }
}
