import Testing

@testable import LatchkeySSH

struct KnownHostsTests {
    private let server = SampleServer()

    @Test func `names are found by key, and keys by name`() throws {
        let hosts = KnownHosts([
            "# a comment\n\n\(server.line("git.example.org,[git.example.org]:2222")) comment\n"
        ])
        let key = try server.hostKey
        #expect(hosts.name(of: key) == "git.example.org")
        #expect(hosts.fingerprints(of: "GIT.example.org") == [key.fingerprint])
        #expect(hosts.fingerprints(of: "[git.example.org]:2222") == [key.fingerprint])
        #expect(hosts.fingerprints(of: "other.example.org").isEmpty)
        #expect(hosts.name(of: try SampleServer().hostKey) == nil)
    }

    @Test func `a hashed name is found by name only`() throws {
        // The line of `ssh-keygen -H` for the name host.example.org.
        let name = "|1|AAECAwQFBgcICQoLDA0ODxAREhM=|\(Self.digest)"
        let hosts = KnownHosts([server.line(name)])
        #expect(hosts.fingerprints(of: "host.example.org") == [try server.hostKey.fingerprint])
        #expect(hosts.fingerprints(of: "host.example.net").isEmpty)
        #expect(hosts.name(of: try server.hostKey) == nil)
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

    @Test func `damaged lines are skipped`() throws {
        let hosts = KnownHosts(["x\nx y\nx y !\n|1| y \(server.blob)\n\(server.line("a"))"])
        #expect(hosts.name(of: try server.hostKey) == "a")
    }
}
