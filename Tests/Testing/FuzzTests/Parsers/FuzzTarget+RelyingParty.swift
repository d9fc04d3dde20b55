import FoundationEssentials

@testable import Latchkey
@testable import LatchkeyCredentials
@testable import LatchkeyJOSE
@testable import LatchkeyOAuth
@testable import LatchkeyRelyingParty

extension FuzzTarget {
    /// JWKs and JWK sets from clients and servers.
    static let jsonWebKeys = FuzzTarget("json-web-keys") { (input) throws(Contradiction) in
        let json = Data(input)
        if let key = try? JSONDecoder().decode(JWK.self, from: json) {
            if let point = try? key.publicKey() {
                let again = try? JWK(point).publicKey()
                try expect(again == point, "a JWK is another key")
            }
            _ = DevicePublicKey(key)
        }
        if let value = try? JSONDecoder().decode(JSONValue.self, from: json) {
            let again = (try? JSONEncoder().encode(value)).flatMap {
                try? JSONDecoder().decode(JSONValue.self, from: $0)
            }
            try expect(again == value, "JSON is written as something else")
            if let key = (try? JSONWebKey(value))?.publicKey {
                _ = key.isValid(Data(repeating: 1, count: 64), for: Data([1]))
                guard let kid = KeyID(rawValue: "12345678") else { return }
                try expect(
                    DevicePublicKey(key.jwk(kid: kid)) == key, "a device's key is another one")
            }
        }
        if let keys = try? JSONDecoder().decode(JWKS.self, from: json) {
            let signature = Base64URL.encode(Data(repeating: 1, count: 256))
            for algorithm in SignatureAlgorithm.allCases {
                let header = Base64URL.encode(Data(#"{"alg":"\#(algorithm.rawValue)"}"#.utf8))
                try? ReceivedJWS("\(header).e30.\(signature)").verify(with: keys)
            }
            _ = keys.skipped.map(\.text)
        }
    }

    /// Requests of clients to a relying party; see ``compact(_:)``.
    static let requests = FuzzTarget("requests") { (input) throws(Contradiction) in
        let text = compact(input)
        if let request = try? BiometricRequest(text) {
            _ = request.keyID
            _ = request.deviceInfo.flatMap(DeviceInfo.init)?.label
            _ = request.key?.publicKey?.isValid(
                request.jws.signature, for: Data(request.jws.signingInput.utf8))
        }
        if let request = try? LockerRequest(text) {
            _ = request.info?.label
            if let key = request.publicKey {
                _ = key.isValid(
                    request.signature, for: MessageDigest(sha256: Data(request.signingInput.utf8)))
                let countersignature = Base64URL.encode(request.signature.rawRepresentation)
                _ = (try? LockerCountersignature(countersignature))?.isValid(for: request, by: key)
            }
        }
    }

    /// ID tokens for login, credentials and locker; see ``compact(_:)``.
    static let idTokens = FuzzTarget("id-tokens") { (input) throws(Contradiction) in
        let text = compact(input)
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        let validator = IDTokenValidator(issuer: "https://a.example", clientID: "client")
        let expected = IDTokenValidator.Expectations(
            nonce: "n", accessToken: "a", code: "c", deviceSecret: "d", maximumLoginAge: 60)
        _ = try? validator.validate(
            text, keys: JWKS(keys: []), expected, now: now, serverDate: now)
        _ = try? validator.checkClaims(
            text, expected, now: now, serverDate: now.addingTimeInterval(1000))
        guard let token = try? JWT(text) else { return }
        _ = (token.subject, token.audience, token.name, token.email)
        if let jws = try? ReceivedJWS(text) {
            try expect(
                text.hasPrefix(jws.signingInput + "."),
                "the text does not begin with the signing input")
            _ = try? jws.algorithm
        }
    }

    /// A TPM's attestation of a new key: three parts, each after its length in two bytes, and a
    /// signature.
    static let attestations = FuzzTarget("attestations") { (input) throws(Contradiction) in
        let pieces = pieces(of: input)
        guard pieces.count >= 3 else { return }
        let challenge = [UInt8](repeating: 7, count: 16)
        let attestation = KeyAttestation(
            format: "tpm", statement: Data(pieces[0]),
            signature: Data(pieces.dropFirst(3).first ?? []),
            publicArea: Data(pieces[1]), attestationKey: Data(pieces[2]), certificates: [])
        _ = try? KeyAttestationVerifier().verify(attestation, challenge: challenge)
    }

    /// A compact JWS: the input itself, or the base64url encoding of three lines (header, payload,
    /// signature), so that the fuzzer reaches the parsers behind base64url.
    private static func compact(_ input: [UInt8]) -> String {
        let lines = input.split(
            separator: UInt8(ascii: "\n"), maxSplits: 2, omittingEmptySubsequences: false)
        guard lines.count == 3 else { return String(decoding: input, as: UTF8.self) }
        return lines.map { Base64URL.encode(Array($0)) }.joined(separator: ".")
    }

    /// Splits the input into parts: a length in two bytes, then that many bytes, or all that are
    /// left.
    static func pieces(of input: [UInt8]) -> [[UInt8]] {
        var pieces: [[UInt8]] = []
        var rest = input[...]
        while rest.count >= 2, let high = rest.popFirst(), let low = rest.popFirst() {
            let count = Int(high) << 8 | Int(low)
            pieces.append(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        return pieces
    }
}
