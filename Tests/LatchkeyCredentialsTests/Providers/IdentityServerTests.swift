import Foundation
import HTTPTypes
import Latchkey
import LatchkeyHTTP
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyCredentials

/// Credentials of our own identity server, over real HTTP.
@Suite(.softwareTPM, .requires(program: "python3"))
struct IdentityServerTests {
    private struct Ready: Decodable {
        struct User: Decodable {
            let username: String
            let password: String
        }

        let endpoint: String
        let clientID: String
        let users: [User]
    }

    @Test func `discovery, validation, refresh, the user's data and revocation`() async throws {
        let bench = try Bench()
        let program = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
            .appending(path: "latchkey-identity")
        let server = try RunningProgram(
            program, ["serve", "--demo", "--database", bench.directory.path(of: "identity.sqlite")])
        do {
            let line = await server.output { _ in true }
            let ready = try JSONDecoder().decode(Ready.self, from: Data(line.utf8))
            try await use(ready, bench)
            await server.stop()
        } catch {
            await server.stop()
            throw error
        }
    }

    private func use(_ server: Ready, _ bench: Bench) async throws {
        let store = try await bench.start(
            transport: AsyncHTTPTransport(), configuration: CredentialConfiguration())
        let first = try Token(
            response: try await signIn(server, bench),
            context: Token.Context(issuer: server.endpoint, clientID: server.clientID))
        let credential = try store.store(first)
        let idToken = try #require(first.idToken)
        try await credential.server.validate(idToken, .init(nonce: "n", accessToken: first.accessToken))
        #expect(try await credential.userInfo().subject == idToken.subject)
        let second = try await credential.refresh()
        #expect(second.accessToken != first.accessToken)
        #expect(try await credential.userInfo().subject == idToken.subject)
        try await credential.revoke()
        #expect(try store.allCredentials.isEmpty)
        await #expect(throws: credentials(.signInAgain)) { try await store.store(second).refresh() }
    }

    /// Signs in on the server's page, and exchanges the code.
    private func signIn(_ server: Ready, _ bench: Bench) async throws -> Data {
        let script = try bench.directory.makeScript("sign-in", Self.script)
        let user = try #require(server.users.first)
        let browser = try RunningProgram(
            URL(filePath: script), [server.endpoint, server.clientID, user.username, user.password])
        let outcome = await browser.remainder()
        #expect(await browser.wait() == 0, "\(outcome.errors)")
        return Data(outcome.output.utf8)
    }

    private static let script = """
        #!/usr/bin/env python3
        import base64, hashlib, http.cookiejar, re, html, secrets, sys, urllib.error, urllib.parse, urllib.request

        endpoint, client, username, password = sys.argv[1:]
        redirect = "http://127.0.0.1/callback"

        class Stop(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, request, file, code, message, headers, url):
                if url.startswith(redirect):
                    raise StopIteration(url)
                return super().redirect_request(request, file, code, message, headers, url)

        opener = urllib.request.build_opener(
            Stop(), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()), urllib.request.ProxyHandler({}))
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        query = urllib.parse.urlencode({
            "client_id": client, "redirect_uri": redirect, "response_type": "code", "state": "s", "nonce": "n",
            "scope": "openid offline_access https://authgear.com/scopes/full-access",
            "code_challenge": challenge, "code_challenge_method": "S256"})
        page = opener.open(endpoint + "/oauth2/authorize?" + query, timeout=20)
        text = page.read().decode()
        form = re.findall(r'<form method="post" action="([^"]*)">(.*?)</form>', text, re.S)[-1]
        fields = {name: html.unescape(value)
                  for name, value in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form[1])}
        fields.update(username=username, password=password, action="login")
        target = urllib.parse.urljoin(page.url, html.unescape(form[0]))
        try:
            opener.open(urllib.request.Request(
                target, urllib.parse.urlencode(fields).encode(), {"Origin": endpoint}), timeout=20)
            sys.exit("there was no redirect back")
        except StopIteration as stop:
            code = urllib.parse.parse_qs(urllib.parse.urlparse(str(stop)).query)["code"][0]
        answer = opener.open(endpoint + "/oauth2/token", urllib.parse.urlencode({
            "grant_type": "authorization_code", "client_id": client, "code": code, "redirect_uri": redirect,
            "code_verifier": verifier}).encode(), timeout=20)
        sys.stdout.write(answer.read().decode())
        """
}
