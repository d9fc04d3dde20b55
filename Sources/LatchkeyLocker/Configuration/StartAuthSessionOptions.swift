public import Latchkey

/// Options of one session start.
public struct StartAuthSessionOptions: Sendable {
    let requiredLevel: RequiredLevel
    let usesCachedSecret: Bool
    let presence: (any PresenceAuthority)?
    let channel: (any StrongAuthenticationChannel)?

    /// Makes options. The defaults start the session in the quickest way.
    ///
    /// - Parameters:
    ///   - requiredLevel: The authentication that the session requires.
    ///   - usesCachedSecret: Whether a secret in the cache (`cachedSecretLife` of ``LockerConfiguration``) can be used
    ///     instead of a prompt.
    ///   - presence: Prompts for the secret this time; nil uses the configured authority.
    ///   - channel: How the user logs in this time; nil uses the configured channel.
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
public enum RequiredLevel: Hashable, Sendable, CaseIterable {
    /// Easy access if it is enabled, otherwise strong authentication.
    case any
    /// Easy access only.
    case easyAccess
    /// Strong authentication.
    case strong
}
