import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

/// A Python OAuth 2.0 server that accepts each refresh token once: the token `FAMILY.N` is replaced
/// by `FAMILY.N+1`. It answers every revocation with success.
enum RotatingServer {
    /// Runs `body` with the address of a server.
    static func withRunning<R>(in directory: TemporaryDirectory, _ body: (String) async throws -> R)
        async throws -> R
    {
        let path = try directory.makeScript("rotating-server", script)
        let process = try RunningProgram(URL(filePath: path), [])
        do {
            let line = await process.output { _ in true }
            let address = line.trimmingCharacters(in: .newlines)
            try #require(address.hasPrefix("http://"), "the server did not start: \(line)")
            let result = try await body(address)
            await process.stop(SIGKILL)
            return result
        } catch {
            await process.stop(SIGKILL)
            throw error
        }
    }

    private static let script = """
        #!/usr/bin/env python3
        import json, threading, urllib.parse
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        used, lock = set(), threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def answer(self, status, content):
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def do_GET(self):
                self.answer(200, {
                    "issuer": address, "token_endpoint": address + "/token",
                    "revocation_endpoint": address + "/revoke", "jwks_uri": address + "/keys"})
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                form = dict(urllib.parse.parse_qsl(body))
                if self.path == "/revoke":
                    return self.answer(200, {})
                token = form.get("refresh_token", "")
                family, _, number = token.rpartition(".")
                with lock:
                    if not family or token in used:
                        return self.answer(400, {"error": "invalid_grant"})
                    used.add(token)
                self.answer(200, {
                    "access_token": "access-" + token, "token_type": "Bearer", "expires_in": 3600,
                    "refresh_token": family + "." + str(int(number) + 1)})
            def log_message(self, *arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        address = "http://127.0.0.1:%d" % server.server_port
        print(address, flush=True)
        server.serve_forever()
        """
}
