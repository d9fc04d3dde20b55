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

    /// The algorithm in the header.
    package var algorithm: SignatureAlgorithm {
        get throws(JWSFlaw) {
            guard let name = header["alg"]?.string else {
                throw JWSFlaw(.unreadable, "the header names no algorithm")
            }
            guard let algorithm = SignatureAlgorithm(rawValue: name) else {
                throw JWSFlaw(.algorithm(name), "the algorithm is not supported")
            }
            return algorithm
        }
    }

    /// Checks that one of the keys created the signature.
    ///
    /// A key without an ID may have made a signature that names one: some servers publish one key,
    /// and no ID.
    package func verify(with keys: JWKS) throws(JWSFlaw) {
        guard header["kid"] == nil || header["kid"]?.string != nil else {
            throw JWSFlaw(.unreadable, "‘kid’ in the header is not a string")
        }
        let kid = header["kid"]?.string
        let algorithm = try algorithm
        let message = Data(signingInput.utf8)
        func isSigned(by key: VerificationKey) -> Bool {
            key.isValid(signature, over: message, algorithm)
        }
        let (named, unnamed) = keys.candidates(algorithm, kid: kid)
        guard !named.contains(where: isSigned), !unnamed.contains(where: isSigned) else { return }
        // A skipped key may have made the signature.
        let skipped =
            kid == nil || named.isEmpty ? keys.skipped : keys.skipped.filter { $0.kid == kid }
        guard !named.isEmpty, skipped.isEmpty else {
            throw JWSFlaw(
                .noKey(MissingKey(kid: kid, skipped: skipped)),
                "the key set has no usable key for the signature")
        }
        if let length = algorithm.ecdsaSignatureLength, signature.count != length {
            throw JWSFlaw(
                .unreadable,
                "the signature has \(signature.count) bytes, and one with \(algorithm.rawValue) has \(length): r and s, not DER"
            )
        }
        throw JWSFlaw(.signature, "no key verifies the signature")
    }
}

/// A key that a key set does not have, or not in a usable form.
package struct MissingKey: Hashable, Sendable {
    /// The key ID in the header of the JWS.
    package let kid: String?
    /// The skipped keys that may be the missing one.
    package let skipped: [SkippedKey]

    package init(kid: String?, skipped: [SkippedKey]) {
        (self.kid, self.skipped) = (kid, skipped)
    }
}

/// The reason why a JWS is refused.
package struct JWSFlaw: Error, Sendable {
    package enum Code: Hashable, Sendable {
        /// It is not a compact JWS with a JSON header and payload without repeated names.
        case unreadable
        /// The header requires an extension.
        case criticalExtension
        /// The header names this algorithm, which is not supported.
        case algorithm(String)
        /// The key set has no usable key for the signature.
        case noKey(MissingKey)
        /// The key of the signature does not verify it.
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
