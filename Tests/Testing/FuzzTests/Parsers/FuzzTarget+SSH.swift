@testable import LatchkeySSH

extension FuzzTarget {
    /// The messages of an agent's client, as a stream. The data to sign is decided upon with and
    /// without bound sessions.
    static let sshMessages = FuzzTarget("ssh-messages") { (input) throws(Contradiction) in
        var buffer = FrameBuffer()
        var bindings = SessionBindings()
        var rest = input[...]
        do throws(SSHFormatError) {
            while !rest.isEmpty {
                let count = try buffer.missing()
                guard count > 0 else { break }
                buffer.append(rest.prefix(count))
                rest = rest.dropFirst(count)
                guard let message = try buffer.next() else { continue }
                guard let request = try? AgentRequest(message) else { continue }
                switch request {
                case .bindSession(let bind): try? bindings.bind(bind)
                case .sign(let key, let data, _): decide(data, key, bindings)
                default: break
                }
            }
        } catch {
            // A stream with an invalid length ends.
        }
        decide(input, [], bindings)
        if let listed = try? OtherAgentAnswer.identities(input) {
            let frame = AgentAnswer.identities(AgentIdentity.merged([], listed.identities)).frame
            try expect(
                frame.count <= 4 + AgentRequest.maximumBytes, "a merged list is too long")
        }
        _ = try? OtherAgentAnswer.signature(input)
        try expect(
            bindings.bindings.count <= SessionBindings.maximumCount, "there are too many sessions")
    }

    private static func decide(_ data: [UInt8], _ key: [UInt8], _ bindings: SessionBindings) {
        var settings = SSHKeySettings()
        settings.allowsForwarding = true
        let decision = SigningDecision(
            data: data, key: key, certificate: nil, bindings: bindings, settings: settings)
        guard case .allowed(let use) = decision else { return }
        _ = use.reason(key: "key", client: "client", knownHosts: KnownHosts([]))
    }

    /// Files and keys of OpenSSH: `known_hosts`, certificates and host keys.
    static let sshFiles = FuzzTarget("ssh-files") { (input) throws(Contradiction) in
        let text = String(decoding: input, as: UTF8.self)
        let hosts = KnownHosts([text])
        _ = hosts.fingerprints(of: "host.example.org")
        if let certificate = try? SSHCertificate(file: text) {
            try expect(
                (try? SSHCertificate(file: certificate.line(comment: ""))) == certificate,
                "a certificate is written otherwise")
        }
        _ = try? SSHCertificate(input)
        guard let key = try? HostKey(input) else { return }
        _ = hosts.name(of: key)
        try expect(
            (try? HostKey(key.blob))?.fingerprint == key.fingerprint,
            "a host key has another fingerprint")
        _ = key.isValid(input, over: input)
    }
}
