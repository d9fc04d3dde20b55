internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// A way in which a locker assertion is not well-formed. None of them may use its challenge up.
package enum LockerFlaw: String, Sendable, CaseIterable {
    /// In the header, apart from the key.
    case anotherType, noType, anotherAlgorithm, noAlgorithm, criticalExtension
    /// In the key's name.
    case noKeyID, shortKeyID, longKeyID, oddKeyID
    /// In the key: there or not, and what it is.
    case missingKey, unwantedKey, privateKey, keyOnAnotherCurve, keyOffTheCurve, rsaKey, keyWithAnotherName
    /// In what the key says that it is for.
    case keyForAnotherAlgorithm, keyForEncryption
    /// In `action`.
    case anotherAction, unknownAction, noAction
    /// In `aud`.
    case anotherAudience, audienceWithSlash, audienceInArray, noAudience
    /// In `iss`.
    case missingIssuer, unwantedIssuer, anotherIssuer, oddIssuer
    /// In `iat`.
    case noIssueTime, issueTimeAsText, issuedInFuture
    /// In `exp`.
    case noExpiry, unwantedExpiry, expired, livesTooLong, expiresBeforeIssue
    /// In `challenge`.
    case noChallenge, unwantedChallenge, challengeAsNumber
    /// In `metadata`.
    case metadataAsArray, metadataTooLong
    /// In `device_info`.
    case noDeviceInfo, deviceInfoWithoutModel, unwantedDeviceInfo
    /// In the name of the easy-access key that a revocation ends.
    case oddEasyAccessKeyID, unwantedEasyAccessKeyID
    /// In the whole.
    case tooLong, fourParts, paddedPart, shortSignature, derSignature, payloadNotAnObject

    /// Whether an assertion for the action can have the flaw.
    package func applies(to action: String) -> Bool {
        let bringsKey = ["enrol", "easy-access-enable"].contains(action)
        return switch self {
        case .missingKey, .privateKey, .keyOnAnotherCurve, .keyOffTheCurve, .rsaKey, .keyWithAnotherName,
            .keyForAnotherAlgorithm, .keyForEncryption:
            bringsKey
        case .unwantedKey: !bringsKey
        case .unwantedIssuer, .noDeviceInfo, .deviceInfoWithoutModel: action == "enrol"
        // At the token endpoint the issuer is the only word about the enrolment, and so never another one's.
        case .anotherIssuer: ["easy-access-enable", "easy-access-disable", "level-shares", "revoke"].contains(action)
        case .oddEasyAccessKeyID: action == "easy-access-disable"
        case .unwantedEasyAccessKeyID: action != "easy-access-disable"
        case .missingIssuer, .oddIssuer, .unwantedDeviceInfo: action != "enrol"
        case .issuedInFuture, .noExpiry, .expired, .livesTooLong, .expiresBeforeIssue, .noChallenge, .challengeAsNumber:
            action != "revoke"
        case .unwantedExpiry, .unwantedChallenge: action == "revoke"
        default: true
        }
    }

    /// An assertion with the flaw, which is otherwise the right one.
    package func assertion(
        _ key: LockerTestKey, _ action: String, audience: String, enrolment: String?, challenge: String?, now: Int
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
        case .payloadNotAnObject: return "\(parts[0]).\(Base64URL.encode(Data("[]".utf8))).\(parts[2])"
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
            jwk = ["kty": "RSA", "n": .string(Base64URL.encode(Data(repeating: 255, count: 256))), "e": "AQAB"]
        case .keyWithAnotherName: jwk["kid"] = "another-name"
        case .keyForAnotherAlgorithm: jwk["alg"] = "ECDH-ES"
        case .keyForEncryption: jwk["use"] = "enc"
        default: break
        }
        if header["jwk"] != nil { header["jwk"] = .object(jwk) }
    }

    private func change(_ payload: inout [String: JSONValue], action: String, audience: String, now: Double) {
        switch self {
        case .anotherAction: payload["action"] = action == "level-shares" ? "background-access" : "level-shares"
        case .unknownAction: payload["action"] = .string(action.uppercased())
        case .noAction: payload["action"] = nil
        case .anotherAudience: payload["aud"] = "https://other.example"
        case .audienceWithSlash: payload["aud"] = .string(audience + "/")
        case .audienceInArray: payload["aud"] = [.string(audience)]
        case .noAudience: payload["aud"] = nil
        case .missingIssuer: payload["iss"] = nil
        case .unwantedIssuer, .anotherIssuer: payload["iss"] = "11111111-2222-3333-4444-555555555555"
        case .oddIssuer: payload["iss"] = "short"
        case .noIssueTime: payload["iat"] = nil
        case .issueTimeAsText: payload["iat"] = .string(String(Int(now)))
        case .issuedInFuture: (payload["iat"], payload["exp"]) = (.number(now + 301), .number(now + 360))
        case .noExpiry: payload["exp"] = nil
        case .unwantedExpiry: payload["exp"] = .number(now + 60)
        case .expired: (payload["iat"], payload["exp"]) = (.number(now - 310), .number(now - 300))
        case .livesTooLong: payload["exp"] = .number(now + 301)
        case .expiresBeforeIssue: payload["exp"] = .number(now)
        case .noChallenge: payload["challenge"] = nil
        case .unwantedChallenge: payload["challenge"] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
        case .challengeAsNumber: payload["challenge"] = 7
        case .metadataAsArray: payload["metadata"] = ["x"]
        case .metadataTooLong: payload["metadata"] = ["m": .string(String(repeating: "x", count: 4_096 - 7))]
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
