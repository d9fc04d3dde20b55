/// The decision about a request for a signature, before any prompt.
package enum SigningDecision: Hashable, Sendable {
    /// Prompt for this use, then sign.
    case allowed(SignatureUse)
    /// Refuse. The text is the reason, as a clause.
    case refused(String)

    /// - Parameters:
    ///   - data: The data to sign.
    ///   - key: The key's own bytes.
    ///   - certificate: The bytes of the key's certificate, if it has one.
    ///   - bindings: The sessions of the client's connection.
    package init(
        data: [UInt8], key: [UInt8], certificate: [UInt8]?, bindings: SessionBindings,
        settings: SSHKeySettings
    ) {
        guard !bindings.hasFailed else {
            self = .refused("the connection could not be bound to a session")
            return
        }
        guard !bindings.isForwarded || settings.permitsForwarding else {
            self = .refused("the connection is forwarded, and the key does not allow forwarding")
            return
        }
        do throws(SSHFormatError) {
            switch try SignatureSubject(data) {
            case .login(let login):
                self = Self.decide(
                    login, isKey: login.publicKey == key || login.publicKey == certificate,
                    through: bindings, settings)
            case .file(let namespace):
                self = Self.decide(.file(namespace: namespace), through: bindings, settings)
            case .other where settings.signsAnything:
                self = Self.decide(.anything, through: bindings, settings)
            case .other:
                self = .refused("the data is neither a login request nor a file signature")
            }
        } catch {
            self = .refused("the login request or file signature is malformed: \(error)")
        }
    }

    private static func decide(
        _ login: SignatureSubject.Login, isKey: Bool, through bindings: SessionBindings,
        _ settings: SSHKeySettings
    ) -> SigningDecision {
        guard isKey else { return .refused("the login request names another key") }
        var server = SignatureUse.Server.unnamed
        if let blob = login.hostKey {
            guard let key = try? HostKey(blob) else {
                return .refused("the login request names an unknown host key")
            }
            server = .signed(key)
        }
        if let last = bindings.bindings.last {
            guard !last.isForwarding, last.sessionID == login.sessionID else {
                return .refused(
                    "the login request is for a session to which the connection is not bound")
            }
            switch server {
            case .signed(let key):
                guard key == last.hostKey else {
                    return .refused("the login request names another host key than the session")
                }
            case .claimed, .unnamed:
                // A server can sign the ID of another server's session with its own host key, and
                // so bind it. Without the host key in the signed data, the signature logs in to the
                // other server.
                guard !bindings.isForwarded, settings.destinations.isEmpty else {
                    return .refused("the login request is not bound to a host key")
                }
                server = .claimed(last.hostKey)
            }
        }
        guard
            settings.destinations.isEmpty
                || settings.destinations.permit(loginOf: login.user, through: bindings.bindings)
        else { return .refused("the key is restricted to other destinations") }
        return .allowed(
            SignatureUse(
                purpose: .login(user: login.user, server), forwarders: bindings.forwarders,
                isBound: !bindings.bindings.isEmpty))
    }

    private static func decide(
        _ purpose: SignatureUse.Purpose, through bindings: SessionBindings,
        _ settings: SSHKeySettings
    ) -> SigningDecision {
        guard settings.destinations.isEmpty else {
            return .refused("the key is restricted to logins")
        }
        guard bindings.bindings.allSatisfy(\.isForwarding) else {
            return .refused(
                "the connection is bound to a session, and the data is not its login request")
        }
        return .allowed(
            SignatureUse(
                purpose: purpose, forwarders: bindings.forwarders,
                isBound: !bindings.bindings.isEmpty))
    }
}
