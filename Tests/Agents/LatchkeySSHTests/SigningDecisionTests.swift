import Testing

@testable import LatchkeySSH

struct SigningDecisionTests {
    private let near = SampleServer()
    private let far = SampleServer()
    private let session = SampleData.session
    private let farSession = [UInt8](repeating: 9, count: 32)

    private func decide(
        _ data: [UInt8], _ binds: [SessionBind] = [],
        _ change: (inout SSHKeySettings) -> Void = { _ in }
    ) -> SigningDecision {
        var settings = SSHKeySettings()
        change(&settings)
        var bindings = SessionBindings()
        for bind in binds { try? bindings.bind(bind) }
        return SigningDecision(
            data: data, key: SampleData.key, certificate: nil, bindings: bindings,
            settings: settings)
    }

    private func isAllowed(
        _ data: [UInt8], _ binds: [SessionBind] = [],
        _ change: (inout SSHKeySettings) -> Void = { _ in }
    ) -> Bool {
        if case .allowed = decide(data, binds, change) { return true }
        return false
    }

    @Test func `logins and file signatures are allowed, other data on request`() throws {
        #expect(isAllowed(SampleData.login()))
        #expect(isAllowed(SampleData.login(hostKey: near.blob)))
        #expect(isAllowed(SampleData.file(namespace: "git")))
        let jws = Array("eyJhbGciOiJFUzI1NiJ9.e30".utf8)
        #expect(!isAllowed(jws) && !isAllowed([]))
        #expect(isAllowed(jws) { $0.signsAnything = true })
    }

    @Test func `a login request for another key, algorithm or service is refused`() {
        #expect(!isAllowed(SampleData.login(key: [1])))
        #expect(!isAllowed(SampleData.login(algorithm: "ssh-ed25519")))
        for count in 1..<SampleData.login().count {
            #expect(!isAllowed(Array(SampleData.login().prefix(count))))
        }
        #expect(!isAllowed(SampleData.login() + [0]))
        #expect(!isAllowed(SampleData.file(namespace: "git") + [0]))
        #expect(!isAllowed(SampleData.file(namespace: "")))
        #expect(!isAllowed(SampleData.file(namespace: "git", digest: [1])))
    }

    @Test func `a bound connection signs the login of its session only`() throws {
        let bind = try near.bind(session)
        #expect(isAllowed(SampleData.login(hostKey: near.blob), [bind]))
        #expect(isAllowed(SampleData.login(), [bind]))
        #expect(!isAllowed(SampleData.login(session: farSession), [bind]))
        #expect(!isAllowed(SampleData.login(hostKey: far.blob), [bind]))
        #expect(!isAllowed(SampleData.file(namespace: "git"), [bind]))
        #expect(!isAllowed(Array("anything".utf8), [bind]) { $0.signsAnything = true })
    }

    @Test func `a connection whose binding failed signs nothing`() throws {
        let good = try near.bind(session)
        let bad = SessionBind(
            hostKey: far.blob, sessionID: session, signature: good.signature, isForwarding: false)
        #expect(!isAllowed(SampleData.login(), [bad]))
        #expect(!isAllowed(SampleData.file(namespace: "git"), [bad]) { $0.allowsForwarding = true })
    }

    @Test func `forwarding is refused unless the key allows it`() throws {
        let hop = try near.bind(session, isForwarding: true)
        let binds = [hop, try far.bind(farSession)]
        let login = SampleData.login(session: farSession, hostKey: far.blob)
        #expect(!isAllowed(login, binds))
        #expect(isAllowed(login, binds) { $0.allowsForwarding = true })
        #expect(!isAllowed(SampleData.file(namespace: "git"), [hop]))
        #expect(isAllowed(SampleData.file(namespace: "git"), [hop]) { $0.allowsForwarding = true })
        // A program on the server that does not bind its own session.
        #expect(
            !isAllowed(SampleData.login(session: farSession), [hop]) { $0.allowsForwarding = true })
    }

    private func destination(
        _ server: SampleServer, from source: SampleServer? = nil, user: String? = nil
    ) throws
        -> SSHDestination
    {
        func hop(_ server: SampleServer) throws -> SSHDestination.Hop {
            SSHDestination.Hop(name: "server", fingerprints: [try server.hostKey.fingerprint])
        }
        return SSHDestination(source: try source.map(hop), destination: try hop(server), user: user)
    }

    @Test func `a restricted key logs in to its destinations only`() throws {
        let direct = try destination(near, user: "ada")
        let bind = try near.bind(session)
        let login = SampleData.login(hostKey: near.blob)
        #expect(isAllowed(login, [bind]) { $0.destinations = [direct] })
        #expect(
            !isAllowed(SampleData.login(user: "bob", hostKey: near.blob), [bind]) {
                $0.destinations = [direct]
            })
        #expect(!isAllowed(login) { $0.destinations = [direct] }, "the connection must be bound")
        #expect(
            !isAllowed(SampleData.login(), [bind]) { $0.destinations = [direct] },
            "the host key must be signed")
        #expect(!isAllowed(SampleData.file(namespace: "git")) { $0.destinations = [direct] })
        #expect(
            !isAllowed(SampleData.login(hostKey: far.blob), [try far.bind(session)]) {
                $0.destinations = [direct]
            })
    }

    @Test func `a login through a server needs a rule for each step`() throws {
        let binds = [try near.bind(session, isForwarding: true), try far.bind(farSession)]
        let login = SampleData.login(session: farSession, hostKey: far.blob)
        let (first, second) = (try destination(near), try destination(far, from: near))
        #expect(isAllowed(login, binds) { $0.destinations = [first, second] })
        #expect(!isAllowed(login, binds) { $0.destinations = [second] })
        #expect(!isAllowed(login, binds) { $0.destinations = [first] })
        #expect(
            !isAllowed(login, binds) {
                $0.destinations = [first, second]
                $0.destinations[1] = SSHDestination(
                    source: nil, destination: second.destination, user: nil)
            })
        // Directly from this machine, there is no rule for the second server.
        #expect(
            !isAllowed(SampleData.login(hostKey: far.blob), [try far.bind(session)]) {
                $0.destinations = [first, second]
            })
    }

    @Test func `a key is offered where a login can follow`() throws {
        var settings = SSHKeySettings()
        var (local, forwarded) = (SessionBindings(), SessionBindings())
        #expect(settings.isOffered(to: local))
        try local.bind(near.bind(session))
        try forwarded.bind(near.bind(session, isForwarding: true))
        #expect(settings.isOffered(to: local) && !settings.isOffered(to: forwarded))
        settings.allowsForwarding = true
        #expect(settings.isOffered(to: forwarded))
        settings.destinations = [try destination(near)]
        #expect(settings.isOffered(to: local) && !settings.isOffered(to: forwarded))
        settings.destinations += [try destination(far, from: near)]
        #expect(settings.isOffered(to: forwarded))
        settings.destinations = [try destination(far)]
        #expect(!settings.isOffered(to: local))
    }

    @Test func `the prompt names server, user and client, and no text ends its quotation`() throws {
        let hosts = KnownHosts([near.line("git.example.org,192.0.2.1")])
        guard
            case .allowed(let use) = decide(
                SampleData.login(user: "ada”\n as “root"), [try near.bind(session)])
        else {
            Issue.record("refused")
            return
        }
        let reason = use.reason(key: "work", client: "“ssh” (process 1)", knownHosts: hosts)
        #expect(reason.hasPrefix("log in to “git.example.org” as “ada'\u{FFFD} as 'root”"))
        #expect(reason.contains("“work”") && reason.hasSuffix("for “ssh” (process 1)"))
        // The broker shows 120 characters.
        let forwarded = SignatureUse(
            purpose: .login(user: String(repeating: "u", count: 32), hostKey: try far.hostKey),
            forwarders: [try SampleServer().hostKey, try near.hostKey])
        let start = forwarded.reason(key: "k", client: "c", knownHosts: KnownHosts([])).prefix(120)
        #expect(start.contains(try near.hostKey.fingerprint), "\(start)")
        guard case .allowed(let unknown) = decide(SampleData.login(), [try far.bind(session)])
        else { return }
        #expect(
            unknown.reason(key: "k", client: "c", knownHosts: hosts).contains(
                try far.hostKey.fingerprint))
    }
}
