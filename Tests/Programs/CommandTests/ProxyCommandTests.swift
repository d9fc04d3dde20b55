import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// Networks that reach servers through an HTTP proxy.
@Suite(.requires(program: "python3"), .requires(program: "openssl"), .timeLimit(.minutes(15)))
struct ProxyCommandTests {
    /// A proxy that connects each client to one TLS server, or answers with a status. Prints the
    /// proxy's port and its requests.
    private static let proxy = #"""
        import socket, ssl, sys, threading
        certificate, key, status = sys.argv[1:]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server, proxy = socket.create_server(('127.0.0.1', 0)), socket.create_server(('127.0.0.1', 0))

        def serve():
            while True:
                end, _ = server.accept()
                try:
                    with context.wrap_socket(end, server_side=True) as stream:
                        stream.recv(65536)
                        stream.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')
                except OSError: pass

        def pump(source, sink):
            try:
                while data := source.recv(65536): sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
            except OSError: pass

        threading.Thread(target=serve, daemon=True).start()
        print('port', proxy.getsockname()[1], flush=True)
        while True:
            end, _ = proxy.accept()
            head = b''
            while b'\r\n\r\n' not in head: head += end.recv(4096)
            print(repr(head), flush=True)
            end.sendall(b'HTTP/1.1 %s Answer\r\nContent-Length: 0\r\n\r\n' % status.encode())
            if status != '200':
                end.close()
                continue
            other = socket.create_connection(server.getsockname())
            for pair in [(end, other), (other, end)]: threading.Thread(target=pump, args=pair, daemon=True).start()
        """#

    /// Runs a proxy to a server with a certificate for identity.test.
    private func withProxy(
        status: String = "200",
        _ body: (Machine, _ certificate: String, RunningProgram) async throws -> Void
    ) async throws {
        var machine = try Machine(tcti: nil)
        let (certificate, key) = (
            machine.directory.path(of: "cert"), machine.directory.path(of: "key")
        )
        try await program(
            "openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", key,
                "-out", certificate, "-days", "2", "-subj", "/CN=x", "-addext",
                "subjectAltName=DNS:identity.test",
            ])
        let proxy = try RunningProgram(
            URL(filePath: "/usr/bin/python3"), ["-c", Self.proxy, certificate, key, status])
        let said = await proxy.output { $0.contains("port") }
        let port = try #require(said.firstMatch(of: /port ([0-9]+)/)?.1)
        machine.environment["https_proxy"] = "http://127.0.0.1:\(port)"
        machine.environment["LATCHKEY_ENDPOINT"] = "https://identity.test"
        machine.environment["LATCHKEY_CLIENT_ID"] = "app"
        try await body(machine, certificate, proxy)
        await proxy.stop(SIGKILL)
    }

    /// The finding of `doctor` about the server.
    private func finding(_ outcome: Outcome) throws -> String {
        let check = try outcome.json()["checks"]?.array?.first { $0["name"] == "server" }
        return try #require(check?["finding"]?.string, "\(outcome.output)")
    }

    @Test(
        .requires(program: "unshare"),
        .enabled(
            if: geteuid() == 0, "needs root: it adds an authority to the system's, for one process")
    )
    func `https uses the proxy, except for the hosts of no_proxy`() async throws {
        try await withProxy { machine, certificate, proxy in
            let script =
                #"mount --bind "$1" /etc/ssl/certs/ca-certificates.crt && exec "$2" doctor --json"#
            let arguments = [
                "-m", "/bin/sh", "-c", script, "sh", certificate, Products.latchkey.string,
            ]
            let trusted = try await machine.run(arguments, program: "/usr/bin/unshare")
            #expect(
                try finding(trusted).hasPrefix(
                    "The server at https://identity.test is not an identity server: "))
            let direct = try await machine.run(
                arguments, extra: ["no_proxy": "identity.test"], program: "/usr/bin/unshare")
            #expect(try finding(direct).contains("no address is known for identity.test"))
            await proxy.stop(SIGKILL)
            let heads = await proxy.remainder().output.split(separator: "\n")
            #expect(heads.count == 1, "\(heads)")
            #expect(
                heads.first?.hasPrefix(
                    #"b'CONNECT identity.test:443 HTTP/1.1\r\nHost: identity.test:443\r\n"#) == true
            )
        }
    }

    @Test func `environment variables do not make a server trusted or show the keys of TLS`()
        async throws
    {
        try await withProxy { machine, certificate, _ in
            let keys = machine.directory.path(of: "keys")
            let variables = [
                "SSL_CERT_FILE": certificate, "CURL_CA_BUNDLE": certificate, "SSLKEYLOGFILE": keys,
            ]
            let outcome = try await machine.run("login", "--json", extra: variables)
            #expect(outcome.status == 7)
            #expect(
                outcome.output.contains("the TLS certificate of identity.test is not trusted"),
                "\(outcome.output)")
            #expect(!FileManager.default.fileExists(atPath: keys))
        }
    }

    @Test func `a proxy that refuses is named`() async throws {
        try await withProxy(status: "407") { machine, _, _ in
            let outcome = try await machine.run("login", "--json")
            #expect(outcome.status == 7)
            let reason =
                "the proxy does not connect to identity.test: it answered with the HTTP status 407"
            #expect(outcome.output.contains(reason), "\(outcome.output)")
            #expect(outcome.output.contains("https_proxy"))
        }
    }

    @Test func `a server on this machine is used without the proxy`() async throws {
        let server = try await IdentityProcess(["--demo"])
        let proxy = try SilentServer()
        var machine = try Machine(tcti: nil)
        for name in ["http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
            machine.environment[name] = proxy.address
        }
        machine.environment["LATCHKEY_ENDPOINT"] = server.endpoint
        machine.environment["LATCHKEY_CLIENT_ID"] = server.clientID
        let outcome = try await machine.run("doctor", "--json")
        #expect(try finding(outcome).hasPrefix("The identity server \(server.endpoint) answers"))
        #expect(!proxy.hadVisitor())
        #expect(await server.stop() == 0)
    }
}
