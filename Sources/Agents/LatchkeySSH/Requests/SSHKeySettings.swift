/// The user's settings of one SSH key.
package struct SSHKeySettings: Hashable, Sendable {
    /// Whether a connection that is forwarded to another machine may use the key.
    package var allowsForwarding = false
    /// Whether to sign data that is neither a login request nor a file signature.
    package var signsAnything = false
    /// Whether to offer the key although the hardware requires no user verification.
    package var isOfferedWithoutVerification = false
    /// The permitted logins; empty for all, and for file signatures.
    package var destinations: [SSHDestination] = []

    package init() {}

    /// Whether forwarded connections may use the key: a rule through another server permits it for
    /// that server.
    package var permitsForwarding: Bool {
        allowsForwarding || destinations.contains { $0.source != nil }
    }

    /// Whether to offer the key to a connection.
    package func isOffered(to bindings: SessionBindings) -> Bool {
        guard !bindings.hasFailed, !bindings.isForwarded || permitsForwarding else { return false }
        return destinations.isEmpty || destinations.permitListing(through: bindings.bindings)
    }
}
