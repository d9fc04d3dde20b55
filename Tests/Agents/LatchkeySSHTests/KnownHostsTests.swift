import FoundationEssentials
import Glibc
import LatchkeySimulators
import Testing

@testable import LatchkeySSH

struct KnownHostsTests {
    private let server = SampleServer()

    @Test func `names are found by key, and keys by name`() throws {
        let hosts = KnownHosts([
            "# a comment\n\n\(server.line("git.example.org,[git.example.org]:2222")) comment\n"
        ])
        let key = try server.hostKey
        #expect(hosts.name(of: key) == .name("git.example.org"))
        #expect(hosts.fingerprints(of: "GIT.example.org") == [key.fingerprint])
        #expect(hosts.fingerprints(of: "[git.example.org]:2222") == [key.fingerprint])
        #expect(hosts.fingerprints(of: "other.example.org").isEmpty)
        #expect(hosts.name(of: try SampleServer().hostKey) == .absent)
    }

    @Test func `a hashed name is found by name only`() throws {
        // The line of `ssh-keygen -H` for the name host.example.org.
        let name = "|1|AAECAwQFBgcICQoLDA0ODxAREhM=|\(Self.digest)"
        let hosts = KnownHosts([server.line(name)])
        #expect(hosts.fingerprints(of: "host.example.org") == [try server.hostKey.fingerprint])
        #expect(hosts.fingerprints(of: "host.example.net").isEmpty)
        #expect(hosts.name(of: try server.hostKey) == .hashed)
        var names = HostNames()
        names.add("other.example.org")
        #expect(hosts.name(of: try server.hostKey, among: names) == .hashed)
        names.add("HOST.example.org")
        #expect(hosts.name(of: try server.hostKey, among: names) == .name("host.example.org"))
    }

    @Test func `a name from the client confirms a hashed line, with its port`() throws {
        let key = try server.hostKey
        func name(_ hashed: String, _ arguments: String...) -> KnownHosts.Name {
            var names = HostNames()
            names.add(arguments: arguments)
            return KnownHosts([server.line(SampleServer.hashed(hashed))]).name(
                of: key, among: names)
        }
        let host = "git.example.org"
        for arguments in [
            [host], ["git@\(host)"], ["-oHostKeyAlias=\(host)", "x"],
            ["-o", "HostName \(host)", "work"], ["ssh://git@\(host)/path"], ["git@\(host):path"],
            ["-J", "x", "\(host)"], ["-o", "ProxyJump=ada@\(host):2222", "x"],
        ] {
            var names = HostNames()
            names.add(arguments: arguments)
            let hosts = KnownHosts([server.line(SampleServer.hashed(host))])
            #expect(hosts.name(of: key, among: names) == .name(host), "\(arguments)")
        }
        let port = "[\(host)]:2222"
        #expect(name(port, "-p", "2222", host) == .name(port))
        #expect(name(port, "-p2222", "git@\(host)") == .name(port))
        #expect(name(port, "-oPort=2222", host) == .name(port))
        #expect(name(port, "ssh://git@\(host):2222/path") == .name(port))
        #expect(name(port, "-W", port, "jump") == .name(port))
        #expect(name(port, host) == .hashed, "the control: another port")
        #expect(name(host, "git.example.net", "-p", "2222") == .hashed)
    }

    @Test func `a name from ssh_config confirms a hashed line`() throws {
        var names = HostNames()
        names.add(
            configuration: """
                Host work *.example.net
                  HostName=Git.example.org
                  Port 2222
                host "other"
                  HostKeyAlias alias.example.org
                """)
        let key = try server.hostKey
        for name in [
            "git.example.org", "[git.example.org]:2222", "work", "other", "alias.example.org",
        ] {
            let hosts = KnownHosts([server.line(SampleServer.hashed(name))])
            #expect(hosts.name(of: key, among: names) == .name(name))
        }
        let hosts = KnownHosts([server.line(SampleServer.hashed("a.example.net"))])
        #expect(hosts.name(of: key, among: names) == .hashed)
    }

    @Test func `a readable name of the key comes before hashed ones, in any line`() throws {
        let hosts = KnownHosts([
            """
            \(server.line(SampleServer.hashed("one")))
            \(server.line("*.example.org"))
            \(server.line("two,192.0.2.1"))
            """
        ])
        #expect(hosts.name(of: try server.hostKey) == .name("two"))
        let pattern = KnownHosts([server.line("*.example.org,!b.example.org")])
        #expect(pattern.name(of: try server.hostKey) == .pattern("*.example.org"))
    }

    @Test func `a pattern confirms no name from the client`() throws {
        let key = try server.hostKey
        for (line, known) in [
            ("*.example.org,!b.example.org", KnownHosts.Name.pattern("*.example.org")),
            ("!b.example.org,*", .pattern("*")), ("a.example.or?", .pattern("a.example.or?")),
            ("!b.example.org", .absent),
            ("*,\(SampleServer.hashed("a.example.org"))", .name("a.example.org")),
            ("*,\(SampleServer.hashed("c.example.org"))", .hashed),
            ("\(SampleServer.hashed("a.example.org")),!a.*", .hashed),
        ] {
            var names = HostNames()
            names.add("a.example.org")
            let hosts = KnownHosts([server.line(line)])
            #expect(hosts.name(of: key, among: names) == known, "\(line)")
        }
    }

    @Test func `a certificate of a known authority names its host`() throws {
        let authority = SampleServer()
        let names = ["x.example.net", "a.example.org"]
        let hosts = KnownHosts(["@cert-authority \(authority.line("*.example.org"))"])
        func name(_ certificate: [UInt8]) throws -> KnownHosts.Name {
            let key = try HostKey(certificate)
            #expect(try key == server.hostKey && key.blob == server.blob)
            return hosts.name(of: key)
        }
        let good = try server.certificate(by: authority, for: names)
        // The line is for several hosts, so it shows its pattern.
        #expect(try name(good) == .pattern("*.example.org"))
        for (line, known) in [
            ("*,a.example.org", KnownHosts.Name.name("a.example.org")),
            (SampleServer.hashed("a.example.org"), .name("a.example.org")),
            ("b.example.org,*.example.net", .pattern("*.example.net")),
            ("*,!x.example.net,!a.example.org", .absent), ("b.example.org", .absent),
        ] {
            let hosts = KnownHosts(["@cert-authority \(authority.line(line))"])
            var candidates = HostNames()
            candidates.add("b.example.org")
            #expect(hosts.name(of: try HostKey(good), among: candidates) == known, "\(line)")
        }
        #expect(try hosts.name(of: server.hostKey) == .absent, "without the certificate")
        #expect(try name(server.certificate(by: authority, for: ["x.example.net"])) == .absent)
        #expect(try name(server.certificate(by: authority, for: [])) == .absent)
        #expect(try name(server.certificate(by: SampleServer(), for: names)) == .absent)
        let expired = try server.certificate(by: authority, for: names, validFor: 1...2)
        #expect(try name(expired) == .absent)
        var forged = good
        forged[forged.count - 1] ^= 1
        #expect(try name(forged) == .absent)
        #expect(throws: SSHFormatError.self) {
            try HostKey(server.certificate(by: authority, for: names, type: 1))
        }
        // A certificate in place of the authority's key.
        let chain = SampleServer()
        #expect(try HostKey(chain.certificate(by: server, for: names)).certificate != nil)
        #expect(KnownHosts(["@revoked \(authority.line("*"))"]).isRevoked(try HostKey(good)))
        #expect(try !hosts.isRevoked(HostKey(good)), "the control")
    }

    @Test func `a line with an unknown marker names no key`() throws {
        let hosts = KnownHosts(["@new \(server.line("a.example.org"))"])
        #expect(hosts.name(of: try server.hostKey) == .absent)
    }

    /// HMAC-SHA1 of `host.example.org` under the bytes 0 to 19.
    private static let digest = "ruxWbvXAOX2yXIbyTaK8JZ50uWk="

    @Test func `revoked keys and keys of authorities have no names`() throws {
        let hosts = KnownHosts([
            "@cert-authority \(server.line("*.example.org"))\n@revoked \(server.line("*"))\n\(server.line("a.example.org"))"
        ])
        #expect(hosts.isRevoked(try server.hostKey))
        #expect(hosts.fingerprints(of: "a.example.org").isEmpty)
    }

    @Test func `a file that exists and cannot be read could revoke any key`() throws {
        let hosts = KnownHosts(files: ["/etc"])
        #expect(hosts.unreadable == ["/etc"])
        #expect(hosts.isRevoked(try server.hostKey))
        let absent = KnownHosts(files: ["/nonexistent/known_hosts"])
        #expect(try absent.unreadable.isEmpty && !absent.isRevoked(server.hostKey), "the control")
    }

    @Test func `a file that other users can write names no server, and revokes`() throws {
        let directory = try TemporaryDirectory()
        let (path, key) = (directory.path(of: "known_hosts"), try server.hostKey)
        let authority = SampleServer()
        let text = "\(server.line("github.com"))\n@revoked \(authority.line("*"))\n"
        try Data(text.utf8).write(to: URL(filePath: path))
        for (mode, name) in [(0o644, KnownHosts.Name.name("github.com")), (0o666, .absent)] {
            try #require(chmod(path, mode_t(mode)) == 0)
            let hosts = KnownHosts(files: [path])
            #expect(hosts.name(of: key) == name)
            #expect(hosts.untrusted == (name == .absent ? [path] : []))
            #expect(hosts.isRevoked(try authority.hostKey))
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `a pipe in place of a file is not read`() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "known_hosts")
        try #require(mkfifo(path, 0o600) == 0)
        #expect(KnownHosts(files: [path]).unreadable == [path])
        var names = HostNames()
        names.add(configurations: [path])
    }

    @Test func `damaged lines are skipped`() throws {
        let hosts = KnownHosts(["x\nx y\nx y !\n|1| y \(server.blob)\n\(server.line("a"))"])
        #expect(hosts.name(of: try server.hostKey) == .name("a"))
    }
}
