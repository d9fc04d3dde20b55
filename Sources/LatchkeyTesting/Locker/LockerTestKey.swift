package import Crypto
internal import FoundationEssentials
package import Latchkey

/// A device's key in the test's own memory, and the locker assertions that it signs, right and wrong ones.
package struct LockerTestKey: Sendable {
    /// The name under which it signs.
    package var kid: String
    /// The key, in software.
    package var key: P256.Signing.PrivateKey

    /// A new key of a random name.
    package init(kid: String = UUID().uuidString, key: P256.Signing.PrivateKey = P256.Signing.PrivateKey()) {
        self.kid = kid
        self.key = key
    }

    /// Another key under the same name.
    package var impostor: LockerTestKey { LockerTestKey(kid: kid) }

    /// Its public half.
    package var publicKey: PublicKey {
        get throws { try PublicKey(x963Representation: key.publicKey.x963Representation) }
    }

    /// The public key in JSON, as a header has it.
    package var jwk: [String: JSONValue] {
        let point = key.publicKey.x963Representation
        return [
            "kty": "EC", "crv": "P-256", "alg": "ES256", "kid": .string(kid),
            "x": .string(Base64URL.encode(point.dropFirst().prefix(32))),
            "y": .string(Base64URL.encode(point.suffix(32))),
        ]
    }

    /// What a device says about itself.
    package static let deviceInfo: JSONValue = ["ios": ["uname": ["machine": "Linux Test", "nodename": "bench"]]]

    /// A header and claims that the protocol allows for the action.
    package func draft(
        _ action: String, audience: String, enrolment: String?, challenge: String?, now: Int
    ) -> (header: [String: JSONValue], payload: [String: JSONValue]) {
        var header: [String: JSONValue] = [
            "typ": "vnd.latchkey.locker-request", "alg": "ES256", "kid": .string(kid),
        ]
        var payload: [String: JSONValue] = [
            "action": .string(action), "aud": .string(audience), "iat": .number(Double(now)),
        ]
        if ["enrol", "easy-access-enable"].contains(action) { header["jwk"] = .object(jwk) }
        if action == "enrol" { payload["device_info"] = Self.deviceInfo }
        if action != "revoke" { payload["exp"] = .number(Double(now + 60)) }
        if let enrolment { payload["iss"] = .string(enrolment) }
        if let challenge { payload["challenge"] = .string(challenge) }
        return (header, payload)
    }

    /// Signs whatever it is given.
    package func sign(header: [String: JSONValue], payload: [String: JSONValue]) throws -> String {
        let input = try JWS.signingInput(header: header, payload: payload)
        return input + "." + (try signature(over: input))
    }

    /// This key's word, as a device key, for an assertion of another key.
    package func countersignature(of assertion: String) throws -> String {
        let input = assertion.split(separator: ".").prefix(2).joined(separator: ".")
        return try signature(over: "vnd.latchkey.locker-countersignature:" + input)
    }

    /// A signature over any text: 64 bytes in base64url.
    package func signature(over text: String) throws -> String {
        Base64URL.encode(try key.signature(for: Data(text.utf8)).rawRepresentation)
    }

    /// An assertion. `header` and `payload` change members of it.
    package func assertion(
        _ action: String, audience: String, enrolment: String?, challenge: String?, now: Int,
        header: [String: JSONValue] = [:], payload: [String: JSONValue] = [:]
    ) throws -> String {
        let draft = draft(action, audience: audience, enrolment: enrolment, challenge: challenge, now: now)
        return try sign(header: draft.header.merging(header) { $1 }, payload: draft.payload.merging(payload) { $1 })
    }
}
