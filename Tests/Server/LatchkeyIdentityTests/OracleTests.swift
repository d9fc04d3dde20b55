import Foundation
import HTTPTypes
import Latchkey
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// ID tokens, verified by an independent library.
@Suite("ID tokens, checked by Python's cryptography") struct OracleTests {
    private static let script = """
        import base64, json, sys
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils
        def decode(text): return base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))
        def number(text): return int.from_bytes(decode(text), 'big')
        keys, token = json.loads(sys.argv[1])['keys'], sys.argv[2]
        head, body, signature = token.split('.')
        header = json.loads(decode(head))
        key = next(k for k in keys if k['kid'] == header['kid'])
        assert key['use'] == 'sig' and key['alg'] == header['alg'] and not set(key) & {'d', 'p', 'q'}
        signed, signature = (head + '.' + body).encode(), decode(signature)
        public = ec.EllipticCurvePublicNumbers(number(key['x']), number(key['y']), ec.SECP256R1()).public_key()
        r, s = int.from_bytes(signature[:32], 'big'), int.from_bytes(signature[32:], 'big')
        public.verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
        print(header['alg'], json.loads(decode(body))['sub'], end='')
        """

    @Sendable private static func isAvailable() async -> Bool {
        await (try? python("import cryptography", [])) != nil
    }

    @Test(.enabled("needs python3 with the module cryptography", isAvailable))
    func `verify against the server's key set`() async throws {
        try await TestServer.run { server in
            let keys = try await server.send(.get, "/oauth2/jwks")
            let token = try #require(try await server.login().id)
            #expect(
                try await Self.python(Self.script, [keys.body, token])
                    == "ES256 \(server.alice.id)")
            let forged = token.dropLast(8) + (token.hasSuffix("AAAAAAAA") ? "BBBBBBBB" : "AAAAAAAA")
            await #expect(throws: Failed.self) {
                try await Self.python(Self.script, [keys.body, String(forged)])
            }
        }
    }

    private struct Failed: Error {}

    private static func python(_ script: String, _ arguments: [String]) async throws -> String {
        let outcome = try await SystemProgram("python3").result(of: ["-c", script] + arguments)
        guard outcome.isSuccess else { throw Failed() }
        return outcome.output
    }
}
