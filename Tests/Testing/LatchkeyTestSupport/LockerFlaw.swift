package import Crypto
internal import FoundationEssentials
package import Latchkey
package import LatchkeyJOSE

/// A flaw of a locker assertion. The server must reject the assertion without consuming its
/// challenge.
package enum LockerFlaw: String, Sendable, CaseIterable {
    /// Flaws of the header, except the key.
    case anotherType, noType, anotherAlgorithm, noAlgorithm, criticalExtension
    /// Flaws of the key ID.
    case noKeyID, shortKeyID, longKeyID, oddKeyID
    /// Flaws of the key.
    case missingKey, unwantedKey, privateKey, keyOnAnotherCurve, keyOffTheCurve, rsaKey,
        keyWithAnotherName
    /// Flaws of the key's purpose.
    case keyForAnotherAlgorithm, keyForEncryption
    /// Flaws of `action`.
    case anotherAction, unknownAction, noAction
    /// Flaws of `aud`.
    case anotherAudience, audienceWithSlash, audienceInArray, noAudience
    /// Flaws of `iss`.
    case missingIssuer, unwantedIssuer, anotherIssuer, oddIssuer
    /// Flaws of `iat`.
    case noIssueTime, issueTimeAsText, issuedInFuture
    /// Flaws of `exp`.
    case noExpiry, unwantedExpiry, expired, livesTooLong, expiresBeforeIssue
    /// Flaws of `challenge`.
    case noChallenge, unwantedChallenge, challengeAsNumber
    /// Flaws of `metadata`.
    case metadataAsArray, metadataTooLong
    /// Flaws of `device_info`.
    case noDeviceInfo, deviceInfoWithoutModel, unwantedDeviceInfo
    /// Flaws of the ID of the easy-access key to revoke.
    case oddEasyAccessKeyID, unwantedEasyAccessKeyID
    /// Flaws of the assertion as a whole.
    case tooLong, fourParts, paddedPart, shortSignature, derSignature, payloadNotAnObject

    /// Whether an assertion for the action can have the flaw.
    package func applies(to action: String) -> Bool {
        let bringsKey = ["enrol", "easy-access-enable"].contains(action)
        return switch self {
        case .missingKey, .privateKey, .keyOnAnotherCurve, .keyOffTheCurve, .rsaKey,
            .keyWithAnotherName,
            .keyForAnotherAlgorithm, .keyForEncryption:
            bringsKey
        case .unwantedKey: !bringsKey
        case .unwantedIssuer, .noDeviceInfo, .deviceInfoWithoutModel: action == "enrol"
        // At the token endpoint, the issuer is the only reference to the enrolment, so it cannot
        // contradict another one.
        case .anotherIssuer:
            ["easy-access-enable", "easy-access-disable", "level-shares", "revoke"].contains(action)
        case .oddEasyAccessKeyID: action == "easy-access-disable"
        case .unwantedEasyAccessKeyID: action != "easy-access-disable"
        case .missingIssuer, .oddIssuer, .unwantedDeviceInfo: action != "enrol"
        case .issuedInFuture, .noExpiry, .expired, .livesTooLong, .expiresBeforeIssue, .noChallenge,
            .challengeAsNumber:
            action != "revoke"
        case .unwantedExpiry, .unwantedChallenge: action == "revoke"
        default: true
        }
    }

    /// An assertion with the flaw that is otherwise valid.
    package func assertion(
        _ key: LockerTestKey, _ action: String, audience: String, enrolment: String?,
        challenge: String?, now: Int
    ) throws -> String {
        var (header, payload) = key.draft(
            action, audience: audience, enrolment: enrolment, challenge: challenge, now: now)
        change(&header, key)
        change(&payload, action: action, audience: audience, now: Double(now))
        let good = try key.sign(header: header, payload: payload)
        let parts = good.split(separator: ".").map(String.init)
        switch self {
        case .fourParts: return good + "." + parts[2]
        case .paddedPart: return good + "="
        case .shortSignature: return String(good.dropLast(4))
        case .derSignature:
            let signature = try key.key.signature(for: Data("\(parts[0]).\(parts[1])".utf8))
            return "\(parts[0]).\(parts[1])." + Base64URL.encode(signature.derRepresentation)
        case .payloadNotAnObject:
            return "\(parts[0]).\(Base64URL.encode(Data("[]".utf8))).\(parts[2])"
        default: return good
        }
    }

    private func change(_ header: inout [String: JSONValue], _ key: LockerTestKey) {
        var jwk = key.jwk
        switch self {
        case .anotherType: header["typ"] = "vnd.authgear.biometric-request"
        case .noType: header["typ"] = nil
        case .anotherAlgorithm: header["alg"] = "none"
        case .noAlgorithm: header["alg"] = nil
        case .criticalExtension: header["crit"] = ["b64"]
        case .noKeyID: header["kid"] = nil
        case .shortKeyID: header["kid"] = "seven77"
        case .longKeyID: header["kid"] = .string(String(repeating: "k", count: 65))
        case .oddKeyID: header["kid"] = "key/number/1"
        case .missingKey: header["jwk"] = nil
        case .unwantedKey: header["jwk"] = .object(jwk)
        case .privateKey: jwk["d"] = .string(Base64URL.encode(key.key.rawRepresentation))
        case .keyOnAnotherCurve:
            let point = P384.Signing.PrivateKey().publicKey.x963Representation
            jwk["crv"] = "P-384"
            jwk["x"] = .string(Base64URL.encode(point.dropFirst().prefix(48)))
            jwk["y"] = .string(Base64URL.encode(point.suffix(48)))
        case .keyOffTheCurve: jwk["y"] = jwk["x"]
        case .rsaKey:
            jwk = [
                "kty": "RSA", "n": .string(Base64URL.encode(Data(repeating: 255, count: 256))),
                "e": "AQAB",
            ]
        case .keyWithAnotherName: jwk["kid"] = "another-name"
        case .keyForAnotherAlgorithm: jwk["alg"] = "ECDH-ES"
        case .keyForEncryption: jwk["use"] = "enc"
        default: break
        }
        if header["jwk"] != nil { header["jwk"] = .object(jwk) }
    }

    private func change(
        _ payload: inout [String: JSONValue], action: String, audience: String, now: Double
    ) {
        switch self {
        case .anotherAction:
            payload["action"] = action == "level-shares" ? "background-access" : "level-shares"
        case .unknownAction: payload["action"] = .string(action.uppercased())
        case .noAction: payload["action"] = nil
        case .anotherAudience: payload["aud"] = "https://other.example"
        case .audienceWithSlash: payload["aud"] = .string(audience + "/")
        case .audienceInArray: payload["aud"] = [.string(audience)]
        case .noAudience: payload["aud"] = nil
        case .missingIssuer: payload["iss"] = nil
        case .unwantedIssuer, .anotherIssuer:
            payload["iss"] = "11111111-2222-3333-4444-555555555555"
        case .oddIssuer: payload["iss"] = "short"
        case .noIssueTime: payload["iat"] = nil
        case .issueTimeAsText: payload["iat"] = .string(String(Int(now)))
        case .issuedInFuture:
            (payload["iat"], payload["exp"]) = (.number(now + 301), .number(now + 360))
        case .noExpiry: payload["exp"] = nil
        case .unwantedExpiry: payload["exp"] = .number(now + 60)
        case .expired: (payload["iat"], payload["exp"]) = (.number(now - 310), .number(now - 300))
        case .livesTooLong: payload["exp"] = .number(now + 301)
        case .expiresBeforeIssue: payload["exp"] = .number(now)
        case .noChallenge: payload["challenge"] = nil
        case .unwantedChallenge: payload["challenge"] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
        case .challengeAsNumber: payload["challenge"] = 7
        case .metadataAsArray: payload["metadata"] = ["x"]
        case .metadataTooLong:
            payload["metadata"] = ["m": .string(String(repeating: "x", count: 4_096 - 7))]
        case .noDeviceInfo: payload["device_info"] = nil
        case .deviceInfoWithoutModel: payload["device_info"] = ["linux": ["machine": "x"]]
        case .unwantedDeviceInfo: payload["device_info"] = LockerTestKey.deviceInfo
        case .oddEasyAccessKeyID: payload["easy_access_kid"] = "short"
        case .unwantedEasyAccessKeyID: payload["easy_access_kid"] = "11111111-2222"
        case .tooLong: payload["more"] = .string(String(repeating: "x", count: 16_384))
        default: break
        }
    }
}

/// A device key in software that signs valid and invalid locker assertions.
package struct LockerTestKey: Sendable {
    /// The key ID.
    package var kid: String
    /// The private key.
    package var key: P256.Signing.PrivateKey

    /// Creates a key with a random ID.
    package init(
        kid: String = UUID().uuidString, key: P256.Signing.PrivateKey = P256.Signing.PrivateKey()
    ) {
        self.kid = kid
        self.key = key
    }

    /// Another key with the same ID.
    package var impostor: LockerTestKey { LockerTestKey(kid: kid) }

    /// The public key.
    package var publicKey: PublicKey {
        get throws { try PublicKey(x963Representation: key.publicKey.x963Representation) }
    }

    /// The public key as a JWK.
    package var jwk: [String: JSONValue] {
        let point = key.publicKey.x963Representation
        return [
            "kty": "EC", "crv": "P-256", "alg": "ES256", "kid": .string(kid),
            "x": .string(Base64URL.encode(point.dropFirst().prefix(32))),
            "y": .string(Base64URL.encode(point.suffix(32))),
        ]
    }

    /// Device information for the claim `device_info`.
    package static let deviceInfo: JSONValue = [
        "ios": ["uname": ["machine": "Linux Test", "nodename": "bench"]]
    ]

    /// A valid header and payload for the action.
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

    /// Signs a header and payload without checks.
    package func sign(header: [String: JSONValue], payload: [String: JSONValue]) throws -> String {
        let input = try JWS.signingInput(header: header, payload: payload)
        return input + "." + (try signature(over: input))
    }

    /// A countersignature of this key, as the device key, for another key's assertion.
    package func countersignature(of assertion: String) throws -> String {
        let input = assertion.split(separator: ".").prefix(2).joined(separator: ".")
        return try signature(over: "vnd.latchkey.locker-countersignature:" + input)
    }

    /// Signs a text: 64 bytes in base64url.
    package func signature(over text: String) throws -> String {
        Base64URL.encode(try key.signature(for: Data(text.utf8)).rawRepresentation)
    }

    /// An assertion with changed members of header and payload.
    package func assertion(
        _ action: String, audience: String, enrolment: String?, challenge: String?, now: Int,
        header: [String: JSONValue] = [:], payload: [String: JSONValue] = [:]
    ) throws -> String {
        let draft = draft(
            action, audience: audience, enrolment: enrolment, challenge: challenge, now: now)
        return try sign(
            header: draft.header.merging(header) { $1 },
            payload: draft.payload.merging(payload) { $1 })
    }
}
