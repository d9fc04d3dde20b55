/// The sessions to which one connection to the agent is bound, in the order of its requests
/// `session-bind@openssh.com`.
///
/// A local ssh binds its connection once, without forwarding. A forwarded connection is first bound
/// by each ssh that forwards it, with forwarding, and then by the last ssh without. A state
/// machine; it uses no hardware.
package struct SessionBindings: Hashable, Sendable {
    package struct Binding: Hashable, Sendable {
        package let hostKey: HostKey
        package let sessionID: [UInt8]
        package let isForwarding: Bool
    }

    /// The maximum number of bindings, as in OpenSSH.
    package static let maximumCount = 16

    package private(set) var bindings: [Binding] = []
    /// Whether a request was refused. The agent then signs nothing for this connection: a client
    /// that could not bind must not get the rights of one that did not try.
    package private(set) var hasFailed = false

    package init() {}

    /// Whether the connection is forwarded to another machine.
    package var isForwarded: Bool { bindings.contains(where: \.isForwarding) }

    /// The servers to which the connection is forwarded. The local ssh names the first one; each
    /// further one is only a statement of the servers before it.
    package var forwarders: [HostKey] { bindings.filter(\.isForwarding).map(\.hostKey) }

    /// - Parameter isRevoked: Whether the user's `known_hosts` revokes a host key.
    /// - Throws: ``SSHFormatError`` for a request that must be refused.
    package mutating func bind(
        _ request: SessionBind, isRevoked: (HostKey) -> Bool = { _ in false }
    ) throws(SSHFormatError) {
        do throws(SSHFormatError) {
            let binding = try checked(request)
            guard !isRevoked(binding.hostKey) else {
                throw SSHFormatError("the host key is revoked in known_hosts")
            }
            bindings.append(binding)
        } catch {
            fail()
            throw error
        }
    }

    /// Records a request that was refused, also one that cannot be read.
    package mutating func fail() { hasFailed = true }

    private func checked(_ request: SessionBind) throws(SSHFormatError) -> Binding {
        guard bindings.count < Self.maximumCount else {
            throw SSHFormatError("the connection has too many sessions")
        }
        if let last = bindings.last, !last.isForwarding {
            throw SSHFormatError(
                "the connection is already bound to a session that does not forward it")
        }
        let hostKey = try HostKey(request.hostKey)
        guard !bindings.contains(where: { $0.sessionID == request.sessionID }) else {
            throw SSHFormatError("the session is already bound")
        }
        guard !hostKey.usesSHA1(request.signature) else {
            throw SSHFormatError(
                "the server signed the session with SHA-1 (ssh-rsa), which the agent does not accept"
            )
        }
        guard hostKey.isValid(request.signature, over: request.sessionID) else {
            throw SSHFormatError("the host key did not sign the session")
        }
        return Binding(
            hostKey: hostKey, sessionID: request.sessionID, isForwarding: request.isForwarding)
    }
}
