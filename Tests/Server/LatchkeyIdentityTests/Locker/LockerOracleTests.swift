import Foundation
import HTTPTypes
import Latchkey
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The protocol, with an independent client: Python's urllib and cryptography.
@Suite("Locker, by Python's cryptography") struct LockerOracleTests {
    private static let script = #"""
        import base64, json, sys, time, urllib.error, urllib.parse, urllib.request
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        issuer, bearer, now = sys.argv[1], sys.argv[2], int(sys.argv[3])

        def encode(data): return base64.urlsafe_b64encode(data).rstrip(b'=').decode()
        def decode(text): return base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))

        def send(url, body=None, bearer=None, method='POST', kind='application/json'):
            if body is not None:
                body = (json.dumps(body) if kind == 'application/json' else urllib.parse.urlencode(body)).encode()
            headers = {'Content-Type': kind} if body is not None else {}
            if bearer: headers['Authorization'] = 'Bearer ' + bearer
            request = urllib.request.Request(url, data=body, headers=headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=300) as answer: status, text = answer.status, answer.read()
            except urllib.error.HTTPError as error: status, text = error.code, error.read()
            return status, json.loads(text) if text else None

        class Key:
            def __init__(self, name): self.name, self.key = name, ec.generate_private_key(ec.SECP256R1())
            def jwk(self):
                point = self.key.public_key().public_numbers()
                return {'kty': 'EC', 'crv': 'P-256', 'x': encode(point.x.to_bytes(32, 'big')),
                        'y': encode(point.y.to_bytes(32, 'big'))}
            def sign(self, text):
                r, s = utils.decode_dss_signature(self.key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
                return encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))
            def assertion(self, action, **claims):
                header = {'typ': 'vnd.latchkey.locker-request', 'alg': 'ES256', 'kid': self.name}
                if action in ('enrol', 'easy-access-enable'): header['jwk'] = self.jwk()
                claims.update(action=action, aud=issuer, iat=now)
                if action != 'revoke':
                    claims.update(exp=now + 300, metadata={'app': 'oracle', 'list': [1, None, 'ü']})
                    status, answer = send(issuer + '/oauth2/challenge', {'purpose': 'locker_request'})
                    assert status == 200, answer
                    claims['challenge'] = answer['result']['token']
                # Indented, for a server must not care how JSON is laid out.
                signed = '.'.join(encode(json.dumps(part, indent=1).encode()) for part in (header, claims))
                return signed + '.' + self.sign(signed)
            def countersign(self, assertion):
                return self.sign('vnd.latchkey.locker-countersignature:' + assertion.rpartition('.')[0])

        discovery = send(issuer + '/.well-known/openid-configuration', method='GET')[1]
        endpoint, token = discovery['locker_enrolment_endpoint'], discovery['token_endpoint']
        assert discovery['issuer'] == issuer and discovery['locker_level_shares_supported'] is True

        def grant(kind, assertion, **more):
            name = 'urn:latchkey:params:oauth:grant-type:' + kind
            assert name in discovery['grant_types_supported']
            return send(token, dict(client_id='app', grant_type=name, assertion=assertion, **more),
                        kind='application/x-www-form-urlencoded')

        device, pin = Key('python-device-key'), Key('python_easy_key')
        status, enrolment = send(endpoint, {'assertion': device.assertion(
            'enrol', device_info={'ios': {'uname': {'machine': 'Python'}}})}, bearer)
        assert status == 201 and len(enrolment['level_shares']) == 2, enrolment
        assert all(len(decode(share)) == 32 for share in enrolment['level_shares'].values())
        own = enrolment['enrolment_id']
        base = endpoint + '/' + own

        status, answer = grant('easy-access', pin.assertion('easy-access', iss=own))
        assert (status, answer['error']) == (400, 'easy_access_revoked'), answer
        def enable(countersigner):
            assertion = pin.assertion('easy-access-enable', iss=own)
            body = {'assertion': assertion, 'device_signature': countersigner.countersign(assertion)}
            return send(base + '/easy-access', body, bearer)
        status, answer = enable(pin)
        assert (status, answer['error']) == (400, 'invalid_grant'), answer
        assert enable(device) == (204, None)
        status, easy = grant('easy-access', pin.assertion('easy-access', iss=own))
        assert status == 200 and easy['level_shares'] == enrolment['level_shares'], easy
        claims = json.loads(decode(easy['id_token'].split('.')[1]))
        assert claims['amr'] == ['hwk', 'pin'] and claims['auth_time'] == now, claims

        status, narrow = grant('background-access', device.assertion('background-access', iss=own), scope='openid')
        assert status == 200 and narrow['scope'] == 'openid' and 'refresh_token' not in narrow, narrow
        assert narrow['level_shares'] == {'background': enrolment['level_shares']['background']}
        assert send(discovery['userinfo_endpoint'], bearer=narrow['access_token'], method='GET')[0] == 200
        shares = {'assertion': device.assertion('level-shares', iss=own)}
        status, answer = send(base + '/level-shares', shares, narrow['access_token'])
        assert (status, answer['error']) == (403, 'insufficient_scope'), answer
        assert send(base + '/level-shares', shares, easy['access_token']) \
            == (200, {'level_shares': enrolment['level_shares']})

        assert send(base + '/easy-access?kid=' + pin.name, bearer=bearer, method='DELETE') == (204, None)
        revocation = {'assertion': device.assertion('revoke', iss=own)}
        for _ in range(2): assert send(base + '/revoke', revocation) == (204, None)
        status, answer = grant('background-access', device.assertion('background-access', iss=own))
        assert (status, answer['error']) == (401, 'enrolment_revoked'), answer
        assert send(discovery['userinfo_endpoint'], bearer=easy['access_token'], method='GET')[0] == 401
        print('done', end='')
        """#

    @Sendable private static func isAvailable() async -> Bool {
        await (try? python("import cryptography", [])) != nil
    }

    @Test(.enabled("needs python3 with the module cryptography", isAvailable))
    func `a device is enrolled, used and revoked`() async throws {
        try await TestServer.run { server in
            let bearer = try await server.login().access
            let output = try await Self.python(
                Self.script, [server.origin, bearer, String(server.time.seconds)])
            #expect(output == "done")
        }
    }

    private struct Failed: Error, CustomStringConvertible {
        let description: String
    }

    private static func python(_ script: String, _ arguments: [String]) async throws -> String {
        let outcome = try await SystemProgram("python3").result(of: ["-c", script] + arguments)
        guard outcome.isSuccess else { throw Failed(description: outcome.errors) }
        return outcome.output
    }
}
