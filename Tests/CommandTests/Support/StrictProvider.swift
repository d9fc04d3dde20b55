import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// An authorization server in a process of its own, in Python, that is slow and takes each refresh token once.
struct StrictProvider {
    let issuer: String
    private let child: ChildProcess
    private let directory: TemporaryDirectory

    static func start() async throws -> StrictProvider {
        let directory = try TemporaryDirectory()
        let script = try directory.makeScript("provider", program)
        let child = try ChildProcess(URL(filePath: script), [])
        let line = await child.output { _ in true }
        return StrictProvider(
            issuer: line.filter { $0 != "\n" }, child: child, directory: directory)
    }

    /// Stops it.
    ///
    /// - Returns: What it answered to each refresh, in order.
    func stop() async -> [String] {
        await child.stop()
        return await child.remainder().output.split(separator: "\n").map(String.init)
    }

    private static let program = """
        #!/usr/bin/env python3
        import http.server, json, signal, sys, threading, time, urllib.parse

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        live, lock, serial = {"r0"}, threading.Lock(), 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, status, value):
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def do_GET(self):
                self.answer(200, {"issuer": issuer, "token_endpoint": issuer + "/token"})
            def do_POST(self):
                global serial
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                time.sleep(2)
                with lock:
                    old = form["refresh_token"][0]
                    print("refreshed" if old in live else "refused", flush=True)
                    if old not in live:
                        return self.answer(400, {"error": "invalid_grant"})
                    serial += 1
                    live.clear()
                    live.add(f"r{serial}")
                    self.answer(200, {"access_token": f"a{serial}", "refresh_token": f"r{serial}",
                                      "token_type": "Bearer", "expires_in": 60})
            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        issuer = f"http://127.0.0.1:{server.server_port}"
        print(issuer, flush=True)
        server.serve_forever()

        """
}
