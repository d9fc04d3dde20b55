internal import Crypto
internal import CryptoExtras
package import FoundationEssentials
internal import Latchkey

/// A compact JWS (RFC 7515 section 3.1) of a client or a server, with a JSON header and a JSON
/// payload: the only reader of such texts. Nothing about it is verified.
package struct ReceivedJWS: Sendable {
    /// The protected header.
    package let header: [String: JSONValue]
    /// The protected header as it was received.
    package let headerJSON: Data
    /// The payload.
    package let payload: [String: JSONValue]
    /// The payload as it was received. No object in it repeats a name.
    package let payloadJSON: Data
    /// The signature.
    package let signature: Data
    /// The signed text.
    package let signingInput: String

    /// Reads a compact JWS.
    ///
    /// Refuses each critical extension (RFC 7515 section 4.1.11) and an unencoded payload (RFC 7797),
    /// because this reader supports none, and repeated names (section 4).
    ///
    /// - Parameters:
    ///   - maximumLength: The maximum length in bytes.
    ///   - maximumHeaderSeparators: As for ``ReceivedJSON/decode(_:from:maximumSeparators:)``.
    ///   - maximumPayloadSeparators: The same for the payload.
    package init(
        _ compact: String, maximumLength: Int = .max, maximumHeaderSeparators: Int = .max,
        maximumPayloadSeparators: Int = .max
    ) throws(JWSFlaw) {
        guard compact.utf8.count <= maximumLength else {
            throw JWSFlaw(.unreadable, "too long")
        }
        let parts = compact.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64URL.decode(parts[0]),
            let payload = Base64URL.decode(parts[1]), let signature = Base64URL.decode(parts[2])
        else { throw JWSFlaw(.unreadable, "not a compact JWS with one signature") }
        self.header = try Self.object(header, "header", maximumHeaderSeparators)
        guard self.header["crit"] == nil, self.header["b64"] == nil else {
            throw JWSFlaw(.criticalExtension, "the header has crit or b64")
        }
        self.payload = try Self.object(payload, "payload", maximumPayloadSeparators)
        (headerJSON, payloadJSON) = (header, payload)
        self.signature = signature
        signingInput = "\(parts[0]).\(parts[1])"
    }

    private static func object(
        _ json: Data, _ name: String, _ maximumSeparators: Int
    ) throws(JWSFlaw) -> [String: JSONValue] {
        do {
            return try ReceivedJSON.decode(
                [String: JSONValue].self, from: json, maximumSeparators: maximumSeparators)
        } catch ReceivedJSON.Flaw.repeatedName {
            throw JWSFlaw(.unreadable, "the \(name) repeats a name")
        } catch {
            throw JWSFlaw(.unreadable, "the \(name) is not a JSON object")
        }
    }

    /// Checks that one of the keys created the signature with RS256 or ES256.
    package func verify(with keys: JWKSet) throws(JWSFlaw) {
        guard let algorithm = header["alg"]?.string,
            header["kid"] == nil || header["kid"]?.string != nil
        else { throw JWSFlaw(.unreadable, "the header has no alg, or a kid that is not a string") }
        let message = Data(signingInput.utf8)
        let check: (JWK) -> Bool
        switch algorithm {
        case "ES256": check = { isES256(over: message, $0) }
        case "RS256": check = { isRS256(over: message, $0) }
        default: throw JWSFlaw(.signature, "alg is neither ES256 nor RS256")
        }
        let candidates = keys.candidates(alg: algorithm, kid: header["kid"]?.string)
        guard candidates.contains(where: check) else {
            throw JWSFlaw(.signature, "no key verifies the signature")
        }
    }

    private func isES256(over message: Data, _ key: JWK) -> Bool {
        guard let key = try? key.publicKey(),
            let signature = ECDSASignature(rawRepresentation: signature)
        else {
            return false
        }
        return key.isValid(signature, for: MessageDigest(sha256: message))
    }

    private func isRS256(over message: Data, _ key: JWK) -> Bool {
        guard
            key.kty == "RSA", let n = key.n.flatMap(Base64URL.decode),
            let e = key.e.flatMap(Base64URL.decode),
            let key = try? _RSA.Signing.PublicKey(n: n, e: e), key.keySizeInBits >= 2048
        else { return false }
        return key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: signature),
            for: SHA256.hash(data: message),
            padding: .insecurePKCS1v1_5)
    }
}

/// The reason why a JWS is refused.
package struct JWSFlaw: Error, Sendable {
    package enum Code: Hashable, Sendable {
        /// It is not a compact JWS with a JSON header and payload without repeated names.
        case unreadable
        /// The header requires an extension.
        case criticalExtension
        /// No key verifies the signature with RS256 or ES256.
        case signature
    }

    package let code: Code
    /// The cause, as a clause without text of the JWS.
    package let detail: String

    init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }
}
