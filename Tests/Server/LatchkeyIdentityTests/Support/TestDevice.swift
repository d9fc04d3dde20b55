import Crypto
import CryptoExtras
import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty

/// A device with a key in memory.
struct TestDevice: Sendable {
    enum Key: Sendable {
        case es256(P256.Signing.PrivateKey)
        case rs256(_RSA.Signing.PrivateKey)
    }

    static let deviceInfo = JSONValue.object([
        "ios": .object([
            "uname": .object(["machine": .string("Linux Test"), "nodename": .string("bench")])
        ])
    ])

    /// The issuer that the requests of a task name.
    @TaskLocal static var issuer = ""

    var kid = UUID().uuidString
    var key = Key.es256(P256.Signing.PrivateKey())

    var jwk: [String: JSONValue] {
        get throws {
            switch key {
            case .es256(let key):
                let point = key.publicKey.x963Representation
                return [
                    "kty": .string("EC"), "crv": .string("P-256"), "alg": .string("ES256"),
                    "kid": .string(kid),
                    "x": .string(Base64URL.encode(point.dropFirst().prefix(32))),
                    "y": .string(Base64URL.encode(point.suffix(32))),
                ]
            case .rs256(let key):
                let numbers = try key.publicKey.getKeyPrimitives()
                return [
                    "kty": .string("RSA"), "alg": .string("RS256"), "kid": .string(kid),
                    "n": .string(Base64URL.encode(numbers.modulus)),
                    "e": .string(Base64URL.encode(numbers.publicExponent)),
                ]
            }
        }
    }

    var algorithm: String {
        switch key {
        case .es256: "ES256"
        case .rs256: "RS256"
        }
    }

    /// A set-up request. `header` and `payload` replace members; null removes one.
    func setup(
        challenge: String, now: Int, header: [String: JSONValue] = [:],
        payload: [String: JSONValue] = [:]
    ) throws -> String {
        try request(
            "setup", challenge, now, header: ["jwk": .object(jwk)].merging(header) { $1 },
            payload: payload)
    }

    func authentication(
        challenge: String, now: Int, header: [String: JSONValue] = [:],
        payload: [String: JSONValue] = [:]
    ) throws -> String {
        try request("authenticate", challenge, now, header: header, payload: payload)
    }

    private func request(
        _ action: String, _ challenge: String, _ now: Int, header: [String: JSONValue],
        payload: [String: JSONValue]
    ) throws -> String {
        let header: [String: JSONValue] = [
            "typ": .string("vnd.authgear.biometric-request"), "alg": .string(algorithm),
            "kid": .string(kid),
        ].merging(header) { $1 }
        let payload: [String: JSONValue] = [
            "iat": .number(Double(now)), "exp": .number(Double(now + 60)),
            "challenge": .string(challenge),
            "action": .string(action), "device_info": Self.deviceInfo,
            "aud": .string(Self.issuer), "client_id": "app",
        ].merging(payload) { $1 }
        let input = try JWS.signingInput(
            header: header.filter { $0.value != .null },
            payload: payload.filter { $0.value != .null })
        return input + "." + Base64URL.encode(try signature(over: input))
    }

    func signature(over input: String) throws -> Data {
        switch key {
        case .es256(let key): try key.signature(for: Data(input.utf8)).rawRepresentation
        case .rs256(let key):
            try key.signature(for: Data(input.utf8), padding: .insecurePKCS1v1_5).rawRepresentation
        }
    }

    /// The text that a P-256 key outside this process signs: a set-up or authentication request.
    static func signingInput(
        _ action: String, _ key: P256.Signing.PublicKey, named kid: String, challenge: String,
        now: Int
    ) throws -> String {
        var header: [String: JSONValue] = [
            "typ": "vnd.authgear.biometric-request", "alg": "ES256", "kid": .string(kid),
        ]
        if action == "setup" {
            header["jwk"] = [
                "kty": "EC", "crv": "P-256", "alg": "ES256", "kid": .string(kid),
                "x": .string(Base64URL.encode(key.rawRepresentation.prefix(32))),
                "y": .string(Base64URL.encode(key.rawRepresentation.suffix(32))),
            ]
        }
        return try JWS.signingInput(
            header: header,
            payload: [
                "iat": .number(Double(now)), "exp": .number(Double(now + 60)),
                "challenge": .string(challenge),
                "action": .string(action), "device_info": deviceInfo,
                "aud": .string(issuer), "client_id": "app",
            ])
    }
}
