import Foundation
import HTTPTypes
import Latchkey
import LatchkeyPlatform
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyOAuth

/// A loopback port that another user of the machine has taken.
struct LoopbackServerOwnerTests {
    /// Prints its port, and then each request that reaches it.
    private static let server = #"""
        import http.server, sys
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                print('request', self.path, flush=True)
                self.send_response(200); self.send_header('Content-Length', '0'); self.end_headers()
            def log_message(self, *_): pass
        server = http.server.HTTPServer((sys.argv[1], 0), Handler)
        print('port', server.server_port, flush=True)
        server.serve_forever()
        """#

    @Test(
        .enabled(if: geteuid() == 0, "being two users takes root"), .requires(program: "setpriv"),
        .requires(program: "python3"), arguments: ["127.0.0.1", "0.0.0.0"])
    func `another user's server gets no request`(_ address: String) async throws {
        let stranger = try RunningProgram(
            URL(filePath: "/usr/bin/setpriv"),
            [
                "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c",
                Self.server, address,
            ])
        let said = await stranger.output { $0.contains("port") }
        let port = try #require(said.firstMatch(of: /port ([0-9]+)/)?.1)
        for host in ["127.0.0.1", "localhost"] {
            let request = HTTPRequest(
                method: .get, scheme: "http", authority: "\(host):\(port)", path: "/secret")
            let error = await #expect(throws: KeystoreError.self) {
                try await CurlTransport(timeout: 300).send(request, body: [])
            }
            #expect(error?.code == .unavailable)
            #expect(
                error?.reason.contains("another user (user ID 65534) listens") == true,
                "\(error as Any)")
        }
        await stranger.stop(SIGKILL)
        #expect(await stranger.remainder().output == "")
    }

    /// Listens for 5 ms at a time, so that some connections come when a check has just seen no
    /// listener. Prints what arrives.
    private static let flickering = #"""
        import socket, sys, time
        with socket.socket() as first:
            first.bind(('127.0.0.1', 0)); port = first.getsockname()[1]
        print('port', port, flush=True)
        while True:
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try: listener.bind(('127.0.0.1', port)); listener.listen()
                except OSError: continue
                listener.settimeout(0.005)
                try: end, _ = listener.accept()
                except OSError: end = None
            if end:
                end.settimeout(1)
                try: print('bytes', len(end.recv(4096)), flush=True)
                except OSError: pass
                end.close()
            time.sleep(0.005)
        """#

    @Test(
        .enabled(if: geteuid() == 0, "being two users takes root"), .requires(program: "setpriv"),
        .requires(program: "python3"))
    func `another user who takes the port after the check gets no byte`() async throws {
        let stranger = try RunningProgram(
            URL(filePath: "/usr/bin/setpriv"),
            [
                "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c",
                Self.flickering,
            ])
        let said = await stranger.output { $0.contains("port") }
        let port = try #require(said.firstMatch(of: /port ([0-9]+)/)?.1)
        let request = HTTPRequest(
            method: .get, scheme: "http", authority: "127.0.0.1:\(port)", path: "/secret")
        for _ in 0..<100 {
            await #expect(throws: KeystoreError.self) {
                try await CurlTransport(timeout: 5).send(request, body: [])
            }
        }
        await stranger.stop(SIGKILL)
        let received = await stranger.remainder().output.matches(of: /bytes ([0-9]+)/).map(\.1)
        #expect(received.allSatisfy { $0 == "0" }, "\(received)")
    }

    /// Accepts one connection, and leaves the port to other programs.
    private static let acceptor = #"""
        import socket, time
        with socket.socket() as listener:
            listener.bind(('127.0.0.1', 0)); listener.listen()
            print('port', listener.getsockname()[1], flush=True)
            end, _ = listener.accept()
        print('accepted', flush=True)
        time.sleep(900)
        """#

    @Test(
        .enabled(if: geteuid() == 0, "being two users takes root"), .requires(program: "setpriv"),
        .requires(program: "python3"))
    func `a connection that another user accepted is not trusted, whoever listens now`()
        async throws
    {
        let stranger = try RunningProgram(
            URL(filePath: "/usr/bin/setpriv"),
            [
                "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c",
                Self.acceptor,
            ])
        let said = await stranger.output { $0.contains("port") }
        let port = try #require(said.firstMatch(of: /port ([0-9]+)/).flatMap { Int($0.1) })
        let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(client) }
        var (address, length) = (sockaddr_in(), socklen_t(MemoryLayout<sockaddr_in>.size))
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        withUnsafeMutableBytes(of: &address) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) { address in
                #expect(connect(client, address.baseAddress, length) == 0)
                #expect(getsockname(client, address.baseAddress, &length) == 0)
            }
        }
        _ = await stranger.output { $0.contains("accepted") }
        let server = try #require(TCPSocket.End("127.0.0.1", port: port))
        let own = try #require(
            TCPSocket.End("127.0.0.1", port: Int(UInt16(bigEndian: address.sin_port))))
        #expect(LoopbackServerOwner(listeningAt: server) == .noListener)
        #expect(LoopbackServerOwner(of: server, connectedTo: own) == .otherUser(65534))
        #expect(LoopbackServerOwner(of: server, connectedTo: server) == .unknown)
        await stranger.stop(SIGKILL)
    }

    @Test(.requires(program: "python3")) func `this user's server gets the request`() async throws {
        let own = try RunningProgram(
            URL(filePath: "/usr/bin/python3"), ["-c", Self.server, "127.0.0.1"])
        let said = await own.output { $0.contains("port") }
        let port = try #require(said.firstMatch(of: /port ([0-9]+)/)?.1)
        let request = HTTPRequest(
            method: .get, scheme: "http", authority: "127.0.0.1:\(port)", path: "/mine")
        #expect(try await CurlTransport(timeout: 300).send(request, body: []).0.status.code == 200)
        await own.stop(SIGKILL)
    }
}
