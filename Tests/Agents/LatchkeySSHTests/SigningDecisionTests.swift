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

    @Test func `a forwarded login is signed for the host key of its session only`() throws {
        // The forwarder opens a session with the far server. It binds this session with its own
        // host key, which can sign every session ID.
        let forwarder = SampleServer()
        let binds = [
            try near.bind(session, isForwarding: true), try forwarder.bind(farSession),
        ]
        let rules = [try destination(near), try destination(forwarder, from: near)]
        for change in [
            { $0.allowsForwarding = true }, { $0.destinations = rules },
            {
                $0.allowsForwarding = true
                $0.signsAnything = true
            },
        ] as [(inout SSHKeySettings) -> Void] {
            #expect(!isAllowed(SampleData.login(session: farSession), binds, change))
            #expect(
                !isAllowed(
                    SampleData.login(session: farSession, hostKey: far.blob), binds, change))
            let bound = SampleData.login(session: farSession, hostKey: forwarder.blob)
            #expect(isAllowed(bound, binds, change), "the control: useless at the far server")
        }
    }

    @Test func `malformed login requests and file signatures are not other data`() throws {
        var datas = [SampleData.login() + [0], SampleData.file(namespace: "git") + [0]]
        datas.append(SampleData.login(algorithm: "ssh-ed25519"))
        datas.append(SampleData.login(user: String(repeating: "a", count: 300)))
        let hop = try near.bind(session, isForwarding: true)
        for data in datas {
            for binds in [[], [hop]] {
                #expect(
                    !isAllowed(data, binds) {
                        $0.signsAnything = true
                        $0.allowsForwarding = true
                    })
            }
        }
    }

    private func use(
        _ data: [UInt8], _ binds: [SessionBind] = [],
        _ change: (inout SSHKeySettings) -> Void = { _ in }
    ) throws -> SignatureUse {
        guard case .allowed(let use) = decide(data, binds, change) else {
            Issue.record("refused")
            throw SSHFormatError("refused")
        }
        return use
    }

    @Test func `a proof stands for later uses only if the user need not read the prompt`() throws {
        let bind = try near.bind(session)
        let hop = try near.bind(session, isForwarding: true)
        func allow(_ settings: inout SSHKeySettings) {
            settings.allowsForwarding = true
            settings.signsAnything = true
        }
        let git = SampleData.file(namespace: "git")
        let farLogin = SampleData.login(session: farSession, hostKey: far.blob)
        #expect(try use(git).permitsReuse)
        #expect(try use(SampleData.login(hostKey: near.blob), [bind]).permitsReuse)
        // The server is a statement of the program.
        #expect(try !use(SampleData.login(), [bind]).permitsReuse)
        #expect(try !use(SampleData.login()).permitsReuse)
        // The client may forward the connection without saying so.
        #expect(try !use(SampleData.login(hostKey: near.blob)).permitsReuse)
        #expect(try !use([1, 2, 3], [], allow).permitsReuse)
        #expect(try !use(git, [hop], allow).permitsReuse)
        #expect(try !use([1, 2, 3], [hop], allow).permitsReuse)
        #expect(try !use(farLogin, [hop, far.bind(farSession)], allow).permitsReuse)
    }

    @Test func `the prompt names server, user and client, and no text ends its quotation`() throws {
        let hosts = KnownHosts([near.line("git.example.org,192.0.2.1")])
        let use = try use(
            SampleData.login(user: "ada”\n as “root", hostKey: near.blob), [near.bind(session)])
        let reason = use.reason(key: "work", client: "“ssh” (process 1)", knownHosts: hosts)
        #expect(reason.hasPrefix("log in to “git.example.org” as “ada'\u{FFFD} as 'root”"))
        #expect(reason.contains("“work”") && reason.hasSuffix("for “ssh” (process 1)"))
    }

    @Test func `a server that the signed data does not contain is a statement of the program`()
        throws
    {
        let hosts = KnownHosts([near.line("git.example.org")])
        let claimed = try use(SampleData.login(), [near.bind(session)])
        #expect(
            claimed.reason(key: "k", client: "c", knownHosts: hosts).hasPrefix(
                "log in to “git.example.org” (named by the program only) as “ada”"))
        #expect(
            try use(SampleData.login()).reason(key: "k", client: "c", knownHosts: hosts).hasPrefix(
                "log in to a server that the program does not name as “ada”"))
    }

    @Test func `the target comes first and is never cut`() throws {
        let user = String(repeating: "u", count: 32)
        let long = String(repeating: "sub.", count: 40) + "example.org"
        let middle = String(repeating: "m", count: 60)
        let hop = try near.bind(session, isForwarding: true)
        func start(_ hosts: [String], _ candidates: HostNames = HostNames()) throws -> String {
            let use = try use(
                SampleData.login(session: farSession, user: user, hostKey: far.blob),
                [hop, far.bind(farSession)]
            ) { $0.allowsForwarding = true }
            // The broker shows 120 characters.
            return String(
                use.reason(
                    key: "k", client: "c", knownHosts: KnownHosts(hosts), candidates: candidates
                ).prefix(120))
        }
        let short = String(try far.hostKey.fingerprint.prefix(19))
        let via = String(try near.hostKey.fingerprint.prefix(19))
        #expect(
            try start([]).hasPrefix("log in to \(short) (not in known_hosts) as “\(user)”, asked"))
        let hashed = SampleServer.hashed("far.example.org")
        #expect(
            try start([far.line(hashed)]).hasPrefix(
                "log in to \(short) (name hashed in known_hosts) as “\(user)”"))
        var names = HostNames()
        names.add("far.example.org")
        #expect(
            try start([far.line("*.example.org")], names).hasPrefix(
                "log in to \(short) (pattern “*.example.org” in known_hosts) as “\(user)”"))
        let longPattern = "*." + String(repeating: "sub.", count: 40) + "example.org"
        let cutPattern = try start([far.line(longPattern)], names)
        #expect(cutPattern.hasPrefix("log in to \(short) (pattern “…"))
        #expect(cutPattern.contains("sub.example.org” in known_hosts) as “\(user)”"))
        #expect(
            try start([far.line(hashed)], names).hasPrefix(
                "log in to “far.example.org” as “\(user)”, asked from the server \(via)"))
        #expect(
            try start([far.line(middle), near.line("near")]).hasPrefix(
                "log in to “\(middle)” as “\(user)”"))
        let cut = try start([far.line(long)])
        #expect(cut.hasPrefix("log in to “…") && cut.contains("sub.example.org” (\(short)) as"))
    }

    @Test func `the prompt names the first forwarder, which the local ssh proves`() throws {
        // The forwarder binds its own session with another server, as if that server asked.
        let third = [UInt8](repeating: 11, count: 32)
        let binds = [
            try near.bind(session, isForwarding: true),
            try far.bind(farSession, isForwarding: true),
            try SampleServer().bind(third),
        ]
        let hosts = KnownHosts([near.line("near"), far.line("trusted.example.org")])
        for (data, binds) in [
            (SampleData.file(namespace: "git"), Array(binds.dropLast())),
            (Array("other".utf8), Array(binds.dropLast())),
        ] {
            let reason = try use(data, binds) {
                $0.allowsForwarding = true
                $0.signsAnything = true
            }.reason(key: "k", client: "c", knownHosts: hosts)
            #expect(reason.contains("asked from the server “near” or one behind it"))
            #expect(!reason.contains("trusted.example.org"))
        }
    }
}
