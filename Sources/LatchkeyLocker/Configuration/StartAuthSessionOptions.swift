public import Latchkey

/// How one start is to go.
public struct StartAuthSessionOptions: Sendable {
    /// Which proof the session must have.
    public var requiredLevel: RequiredLevel
    /// Whether the secret that was given a while ago may serve again, where the configuration keeps it.
    public var usesCachedSecret: Bool
    /// Who asks for the secret this time, and with which user interface; nil for the configured authority.
    public var presence: (any PresenceAuthority)?
    /// How the user logs in this time; nil for the configured channel.
    public var channel: (any StrongAuthenticationChannel)?

    /// Options; by default whatever opens the session soonest.
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
