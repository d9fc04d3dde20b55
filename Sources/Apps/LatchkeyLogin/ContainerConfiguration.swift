public import FoundationEssentials
public import Latchkey
public import LatchkeyOAuth

/// The configuration of a container.
public struct ContainerConfiguration: Sendable {
    let endpoint: String
    let clientID: String
    let tokenStorage: TokenStorage
    let policy: AccessPolicy?
    let device: DeviceInfo
    let additionalOrigins: Set<String>
    let disclosesHardware: @Sendable (AttestationDisclosure) async throws -> Bool
    let now: @Sendable () -> Date

    /// - Parameters:
    ///   - endpoint: The server's address: an absolute `https` URL, or `http` on a loopback host.
    ///     ``Container`` checks it.
    ///   - clientID: The OAuth client id of this program; not empty.
    ///   - tokenStorage: Where the session's tokens are stored.
    ///   - policy: The user verification for new biometric keys. If nil, a finger or the PIN if a
    ///     finger can be verified when the key is made, otherwise the PIN. An existing key keeps
    ///     its policy.
    ///   - device: The description of this machine in the server's list of devices.
    ///   - additionalOrigins: Other origins that belong to the server, for example
    ///     `https://oauth2.example.com`. Endpoints that get secrets must have the endpoint's origin
    ///     or one of these, unless the server names its issuer in authorization responses (RFC
    ///     9207).
    ///   - disclosesHardware: Decides whether the server may get a proof that keys are in this
    ///     hardware, if it requires one. Show the text to the user. The default is no: enabling
    ///     biometric login at such a server throws ``LoginError`` with code `refused`. It is called
    ///     once for each server with a TPM, and for each key with a token.
    ///   - now: The clock.
    public init(
        endpoint: String, clientID: String, tokenStorage: TokenStorage = .persistent,
        policy: AccessPolicy? = nil,
        device: DeviceInfo = .current(), additionalOrigins: Set<String> = [],
        disclosesHardware: @escaping @Sendable (AttestationDisclosure) async throws -> Bool = { _ in
            false
        },
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.endpoint = endpoint
        self.clientID = clientID
        self.tokenStorage = tokenStorage
        self.policy = policy
        self.device = device
        self.additionalOrigins = additionalOrigins
        self.disclosesHardware = disclosesHardware
        self.now = now
    }
}

/// Where a container stores the session's tokens. Keys and user ids are always in the store.
public enum TokenStorage: Hashable, Sendable {
    /// In the store, encrypted with a key that the hardware protects.
    case persistent
    /// In the container's memory only: the session ends with the program. The first operation
    /// revokes and deletes a session that the container stored under `persistent`, so all programs
    /// that use a container need the same value.
    case memory
}
