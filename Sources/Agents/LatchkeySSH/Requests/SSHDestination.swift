/// A permitted use of a key: logging in to one server, directly or through another one, like
/// `ssh-add -h`.
///
/// Names are for people. The rule compares the fingerprints of host keys, as they were when the
/// user set the rule.
package struct SSHDestination: Hashable, Sendable, Codable {
    /// A server with its host keys.
    package struct Hop: Hashable, Sendable, Codable {
        package let name: String
        /// The fingerprints of the host keys, as `SHA256:…`.
        package let fingerprints: Set<String>

        package init(name: String, fingerprints: Set<String>) {
            (self.name, self.fingerprints) = (name, fingerprints)
        }

        func matches(_ key: HostKey) -> Bool { fingerprints.contains(key.fingerprint) }
    }

    /// The server to which the agent is forwarded; nil for this machine.
    package let source: Hop?
    /// The server to log in to.
    package let destination: Hop
    /// The user name on that server; nil for any.
    package let user: String?

    package init(source: Hop?, destination: Hop, user: String?) {
        (self.source, self.destination, self.user) = (source, destination, user)
    }

    /// The rule in the syntax of `ssh-add -h`: `[SOURCE>][USER@]HOST`.
    package var description: String {
        (source.map { "\($0.name)>" } ?? "") + (user.map { "\($0)@" } ?? "") + destination.name
    }
}

extension [SSHDestination] {
    /// Whether a login is permitted: each step of the chain of servers has a rule, and the last one
    /// accepts the user.
    ///
    /// - Parameter bindings: The sessions of the connection. The last one must be the session of
    ///   the login.
    func permit(loginOf user: String, through bindings: [SessionBindings.Binding]) -> Bool {
        guard let last = bindings.last, !last.isForwarding,
            bindings.dropLast().allSatisfy(\.isForwarding)
        else {
            return false
        }
        return hasRules(for: bindings.dropLast())
            && contains { rule in
                rule.isStep(from: bindings.dropLast().last?.hostKey, to: last.hostKey)
                    && (rule.user ?? user) == user
            }
    }

    /// Whether to offer the key to a connection: there is a rule for each step so far, and if it is
    /// forwarded, for a next one.
    func permitListing(through bindings: [SessionBindings.Binding]) -> Bool {
        guard let last = bindings.last else { return true }
        guard hasRules(for: bindings[...]) else { return false }
        return !last.isForwarding || contains { $0.source?.matches(last.hostKey) ?? false }
    }

    private func hasRules(for bindings: ArraySlice<SessionBindings.Binding>) -> Bool {
        var source: HostKey?
        for binding in bindings {
            guard contains(where: { $0.isStep(from: source, to: binding.hostKey) }) else {
                return false
            }
            source = binding.hostKey
        }
        return true
    }
}

extension SSHDestination {
    fileprivate func isStep(from origin: HostKey?, to target: HostKey) -> Bool {
        let isSource = origin.map { source?.matches($0) ?? false } ?? (source == nil)
        return isSource && destination.matches(target)
    }
}
