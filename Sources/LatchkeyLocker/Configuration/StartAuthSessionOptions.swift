public import Latchkey

/// Options of one session start.
public struct StartAuthSessionOptions: Sendable {
    /// The authentication that the session requires.
    public var requiredLevel: RequiredLevel
    /// Whether a secret in the cache (`cachedSecretLife` of ``LockerConfiguration``) can be used instead of a prompt.
    public var usesCachedSecret: Bool
    /// Prompts for the secret this time; nil uses the configured authority.
    public var presence: (any PresenceAuthority)?
    /// How the user logs in this time; nil uses the configured channel.
    public var channel: (any StrongAuthenticationChannel)?

    /// Makes options. The defaults start the session in the quickest way.
    public init(
        requiredLevel: RequiredLevel = .any, usesCachedSecret: Bool = true, presence: (any PresenceAuthority)? = nil,
        channel: (any StrongAuthenticationChannel)? = nil
    ) {
        self.requiredLevel = requiredLevel
        self.usesCachedSecret = usesCachedSecret
        self.presence = presence
        self.channel = channel
    }
}

/// The authentication that a session requires.
public enum RequiredLevel: String, Hashable, Sendable, CaseIterable {
    /// Easy access if it is enabled, otherwise strong authentication.
    case any
    /// Easy access only.
    case easyAccess
    /// Strong authentication.
    case strong
}
