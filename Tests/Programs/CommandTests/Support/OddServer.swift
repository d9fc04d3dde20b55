import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// An OpenID provider as a process of its own, which sends answers that servers send and the standard
/// does not describe. It signs with OpenSSL, and accepts each refresh token once.
struct OddServer {
    let address: String
    private let directory: TemporaryDirectory
    private let process: RunningProgram

    /// Starts a server.
    ///
    /// - Parameter manner: How it differs; see ``set(_:)``.
    init(_ manner: String = "{}") async throws {
        directory = try TemporaryDirectory()
        try Data(manner.utf8).write(to: URL(filePath: directory.path(of: "manner")))
        process = try RunningProgram(
            URL(filePath: "/usr/bin/python3"), ["-c", Self.program, directory.path])
        let text = await process.output { $0.contains("\n") }
        address = try #require(text.split(separator: "\n").first.map(String.init))
    }

    /// Runs `body` with a server, and with a machine that has a TPM and uses the server.
    static func with(
        _ manner: String = "{}", _ body: (Machine, OddServer) async throws -> Void
    ) async throws {
        let server = try await OddServer(manner)
        var machine = try Machine(tcti: SoftwareTPM.current.tcti)
        machine.environment.merge(server.environment) { $1 }
        try await body(machine, server)
        await server.stop()
    }

    /// Changes the server, with a JSON object: `metadata`, `token`, `claims`, `header` and `jwk` are
    /// merged into what it sends (a value `"DELETE"` removes a member), `alg` is the algorithm of its
    /// signatures, `body` replaces the token answer (with `REFRESH` and `ACCESS` for its tokens),
    /// `status` its status, `keys` replaces its keys, `hang` lets requests of that path wait, `after` only after
    /// a request of that path, `gzip` compresses all answers, `chunked` sends them in chunks, `bom` puts
    /// a byte order mark before them, `form` answers with a form unless JSON is asked for, and `fields` are header fields of all. The issuer has the path
    /// `path`, and `slash` at its end. `moreKeys` are before the key.
    func set(_ manner: String) throws {
        try Data(manner.utf8).write(
            to: URL(filePath: directory.path(of: "manner")), options: .atomic)
    }

    /// The requests so far: method and path.
    var requests: [String] {
        let text = try? String(contentsOfFile: directory.path(of: "requests"), encoding: .utf8)
        return (text ?? "").split(separator: "\n").map(String.init)
    }

    func count(_ request: String) -> Int { requests.count { $0 == request } }

    /// The environment of a client whose browser logs in at once.
    var environment: [String: String] {
        [
            "LATCHKEY_ENDPOINT": address, "LATCHKEY_CLIENT_ID": "app",
            "BROWSER": "curl --silent --location --noproxy * --output /dev/null",
        ]
    }

    /// The body of a token answer of a user who has logged in elsewhere.
    func signIn(at path: String = "") async throws -> String {
        try await SystemProgram("curl").result(of: [
            "--silent", "--noproxy", "*", "--data", "grant_type=test",
            "\(address)\(path)/token",
        ]).output
    }

    func stop() async { await process.stop(SIGKILL) }

    private static let program = #"""
        import base64, gzip, hashlib, http.server, json, os, secrets, subprocess, sys, threading, time
        from urllib.parse import parse_qs, urlencode, urlparse
        folder, lock = sys.argv[1], threading.Lock()
        refresh, codes, seen = set(), {}, {}

        def b64(data): return base64.urlsafe_b64encode(data).rstrip(b'=').decode()
        def openssl(*words, data=b''):
            return subprocess.run(['openssl', *words], input=data, capture_output=True, check=True).stdout
        def key(alg):
            kind = {'R': 'RSA', 'P': 'RSA', 'H': 'RSA'}.get(alg[0], alg)
            path = '%s/%s.pem' % (folder, kind)
            with lock:
                if not os.path.exists(path):
                    options = {'RSA': ['RSA'], 'ES256': ['EC', '-pkeyopt', 'ec_paramgen_curve:P-256'],
                        'ES384': ['EC', '-pkeyopt', 'ec_paramgen_curve:P-384'],
                        'ES512': ['EC', '-pkeyopt', 'ec_paramgen_curve:P-521'], 'EdDSA': ['ED25519']}[kind]
                    openssl('genpkey', '-algorithm', *options, '-out', path)
            return path
        def jwk(alg):
            der = openssl('pkey', '-in', key(alg), '-pubout', '-outform', 'DER')
            made = {'kid': 'k1', 'use': 'sig', 'alg': alg}
            if alg[0] in 'RPH':
                n = openssl('rsa', '-in', key(alg), '-modulus', '-noout').decode().split('=')[1].strip()
                return made | {'kty': 'RSA', 'n': b64(bytes.fromhex(n)), 'e': 'AQAB'}
            if alg == 'EdDSA': return made | {'kty': 'OKP', 'crv': 'Ed25519', 'x': b64(der[-32:])}
            size = {'ES256': 32, 'ES384': 48, 'ES512': 66}[alg]
            curve = {32: 'P-256', 48: 'P-384', 66: 'P-521'}[size]
            return made | {'kty': 'EC', 'crv': curve, 'x': b64(der[-2 * size:-size]), 'y': b64(der[-size:])}
        def raw(der, size):
            at, numbers = (3 if der[1] & 0x80 else 2), []
            for _ in range(2):
                count = der[at + 1]
                numbers.append(der[at + 2:at + 2 + count].lstrip(b'\0').rjust(size, b'\0'))
                at += 2 + count
            return b''.join(numbers)
        def sign(alg, data):
            path = key(alg)
            if alg == 'EdDSA':
                with open(folder + '/message', 'wb') as file: file.write(data)
                return openssl('pkeyutl', '-sign', '-rawin', '-inkey', path, '-in', folder + '/message')
            words = ['dgst', '-sha' + alg[2:], '-sign', path]
            if alg[0] == 'P': words += ['-sigopt', 'rsa_padding_mode:pss', '-sigopt', 'rsa_pss_saltlen:digest']
            made = openssl(*words, data=data)
            return raw(made, {'ES256': 32, 'ES384': 48, 'ES512': 66}[alg]) if alg[0] == 'E' else made
        def merge(made, changes):
            made = made | changes
            return {name: value for name, value in made.items() if value != 'DELETE'}

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, body, status=200, **fields):
                body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                manner = seen.get('manner', {})
                if manner.get('bom'): body = b'\xef\xbb\xbf' + body
                if manner.get('gzip'):
                    body, fields['Content-Encoding'] = gzip.compress(body), 'gzip'
                chunked = manner.get('chunked')
                self.protocol_version = 'HTTP/1.1' if chunked else 'HTTP/1.0'
                self.send_response(status)
                for name, value in (fields | manner.get('fields', {})).items(): self.send_header(name, value)
                if chunked: self.send_header('Transfer-Encoding', 'chunked')
                elif status != 204: self.send_header('Content-Length', str(len(body)))
                self.send_header('Connection', 'close')
                self.end_headers()
                if not chunked: return self.wfile.write(body)
                for at in range(0, len(body), 7):
                    part = body[at:at + 7]
                    self.wfile.write(b'%x;x=y\r\n%s\r\n' % (len(part), part))
                self.wfile.write(b'0\r\nX-Trailer: y\r\n\r\n')
            def serve(self):
                with open(folder + '/manner') as file: manner = json.load(file)
                url = urlparse(self.path)
                body = self.rfile.read(int(self.headers.get('Content-Length', 0))).decode()
                form = {name: values[0] for name, values in parse_qs(body or url.query).items()}
                own = 'http://127.0.0.1:%d' % self.server.server_port + manner.get('path', '')
                issuer, path = own + manner.get('slash', ''), url.path.removeprefix(manner.get('path', ''))
                with open(folder + '/requests', 'a') as file: file.write('%s %s\n' % (self.command, url.path))
                if manner != seen.get('manner'): seen.clear()
                if manner.get('hang') == url.path and manner.get('after', '/') in [*seen, '/']: time.sleep(600)
                seen['manner'] = manner
                seen[url.path] = True
                alg = manner.get('alg', 'RS256')
                discovery = '/.well-known/openid-configuration'
                if manner.get('oauth'):
                    discovery = '/.well-known/oauth-authorization-server' + manner.get('path', '')
                if path == discovery:
                    names = {'authorization': 'authorize', 'token': 'token', 'userinfo': 'userinfo',
                        'revocation': 'revoke'}
                    made = {name + '_endpoint': '%s/%s' % (own, path) for name, path in names.items()}
                    made |= {'issuer': issuer, 'jwks_uri': own + '/keys'}
                    self.answer(merge(made, manner.get('metadata', {})))
                elif path == '/keys':
                    keys = manner.get('moreKeys', []) + [merge(jwk(alg), manner.get('jwk', {}))]
                    self.answer({'keys': manner.get('keys') or keys})
                elif path == '/authorize':
                    code = secrets.token_urlsafe(8)
                    codes[code] = form.get('nonce')
                    back = merge({'code': code, 'state': form.get('state')}, manner.get('redirect', {}))
                    self.answer('', 302, Location=form['redirect_uri'] + '?' + urlencode(back))
                elif path == '/token': self.token(manner, form, issuer, alg)
                elif path == '/userinfo': self.answer({'sub': 'jane'})
                elif path == '/revoke':
                    refresh.discard(form.get('token'))
                    self.answer('')
                else: self.answer('', 404)
            do_GET = do_POST = serve
            def token(self, manner, form, issuer, alg):
                nonce = None
                if form['grant_type'] == 'refresh_token':
                    if form['refresh_token'] not in refresh:
                        return self.answer({'error': 'invalid_grant'}, 400)
                    if manner.get('status', 200) < 500: refresh.discard(form['refresh_token'])
                elif form['grant_type'] == 'authorization_code': nonce = codes.pop(form['code'])
                elif form['grant_type'] != 'test': return self.answer({'error': 'unsupported_grant_type'}, 400)
                access, next = secrets.token_urlsafe(8), secrets.token_urlsafe(8)
                refresh.add(next)
                now = int(time.time())
                claims = {'iss': issuer, 'sub': 'jane', 'aud': 'app', 'iat': now, 'exp': now + 3600}
                if nonce: claims['nonce'] = nonce
                digest = hashlib.new('sha' + {'EdDSA': '512'}.get(alg, alg[2:]), access.encode()).digest()
                claims['at_hash'] = b64(digest[:len(digest) // 2])
                header = merge({'alg': alg, 'kid': 'k1'}, manner.get('header', {}))
                parts = [header, merge(claims, manner.get('claims', {}))]
                text = '.'.join(b64(json.dumps(part).encode()) for part in parts)
                made = {'access_token': access, 'token_type': 'Bearer', 'expires_in': 3600,
                    'refresh_token': next, 'id_token': text + '.' + b64(sign(alg, text.encode()))}
                made = merge(made, manner.get('token', {}))
                if form['grant_type'] == 'test': return self.answer(made | {'id_token': made.get('id_token')})
                if 'body' in manner:
                    body = manner['body'] if isinstance(manner['body'], str) else json.dumps(manner['body'])
                    made = body.replace('REFRESH', next).replace('ACCESS', access)
                if manner.get('form') and self.headers.get('Accept') != 'application/json':
                    made = urlencode(made)
                self.answer(made, manner.get('status', 200))
            def log_message(self, *_): pass
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        server.daemon_threads = True
        print('http://127.0.0.1:%d' % server.server_port, flush=True)
        server.serve_forever()
        """#
}
