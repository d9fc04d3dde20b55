import Foundation
import LatchkeyCredentials
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// An OpenID provider that nobody here wrote: Canaille (https://canaille.readthedocs.io), which `scripts/setup` installs.
/// It has the confidential client `app` with the secret `s3cret`, and a token of its user `jane`.
struct Canaille {
    struct Announcement: Decodable {
        let issuer: String
        /// An ID token that Python's joserfc has signed with the provider's key.
        let idToken: String
    }

    /// What it needs to run.
    static let python: String = {
        let cache = ProcessInfo.processInfo.environment["XDG_CACHE_HOME"] ?? "\(NSHomeDirectory())/.cache"
        return "\(cache)/latchkey/canaille/bin/python"
    }()

    /// Runs the provider for the time of `body`.
    static func withRunning(_ body: (Announcement) async throws -> Void) async throws {
        let directory = try TemporaryDirectory()
        let script = directory.path(of: "provider.py")
        try Data(program.utf8).write(to: URL(filePath: script))
        let child = try ChildProcess(URL(filePath: python), [script])
        do {
            let line = await child.output { $0.contains("idToken") }
            let ready = try #require(
                line.split(separator: "\n").last.flatMap {
                    try? JSONDecoder().decode(Announcement.self, from: Data($0.utf8))
                }, "Canaille did not start: \(line)")
            try await body(ready)
        } catch {
            await child.stop(SIGKILL)
            throw error
        }
        await child.stop(SIGKILL)
    }

    private static let program = """
        import datetime, json, logging, os, socket, sys, time
        from joserfc import jwk, jwt
        from werkzeug.serving import make_server

        logging.disable(logging.CRITICAL)
        # The library's warnings go nowhere; the one line goes to stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        from canaille import create_app
        from canaille.app import models
        from canaille.backends import Backend

        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        port = listener.getsockname()[1]
        issuer = f"http://127.0.0.1:{port}"
        key = jwk.RSAKey.generate_key(2048)
        private = {**key.as_dict(private=True), "kid": "one"}
        app = create_app({
            "SECRET_KEY": "x" * 32, "SERVER_NAME": f"127.0.0.1:{port}", "PREFERRED_URL_SCHEME": "http",
            "CANAILLE": {"DATABASE": "memory"}, "CANAILLE_OIDC": {"ACTIVE_JWKS": [private]},
        })
        with app.app_context():
            now = datetime.datetime.now(datetime.timezone.utc)
            user = models.User(user_name="jane", family_name="Doe", formatted_name="Jane Doe", emails=["jane@example.com"])
            Backend.instance.save(user)
            scope = ["openid", "profile", "email"]
            client = models.Client(
                client_id="app", client_name="App", client_secret="s3cret", redirect_uris=["http://127.0.0.1/cb"],
                grant_types=["authorization_code", "refresh_token"], response_types=["code"], scope=scope,
                token_endpoint_auth_method="client_secret_basic", client_id_issued_at=now)
            Backend.instance.save(client)
            Backend.instance.save(models.Token(
                token_id="one", access_token="access-0", refresh_token="refresh-0", client=client, subject=user,
                type="Bearer", scope=scope, issue_date=now, lifetime=3600, audience=[client]))
        claims = {"iss": issuer, "sub": "jane", "aud": "app", "iat": int(time.time()), "exp": int(time.time()) + 600}
        id_token = jwt.encode({"alg": "RS256", "kid": "one"}, claims, key)
        server = make_server("127.0.0.1", port, app, threaded=True, fd=listener.fileno())
        print(json.dumps({"issuer": issuer, "idToken": id_token}), flush=True)
        server.serve_forever()
        """
}

extension Trait where Self == ConditionTrait {
    /// Skips the test, and says why, where Canaille is not installed.
    static var requiresCanaille: Self {
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: Canaille.python),
            "needs Canaille in \(Canaille.python): run scripts/setup")
    }
}
