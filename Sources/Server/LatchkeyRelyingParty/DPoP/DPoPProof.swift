internal import Crypto
public import FoundationEssentials
internal import Latchkey
internal import LatchkeyJOSE

/// A verified proof that the sender of a request has a private key (RFC 9449 section 4).
///
/// It is valid for one request: record ``digest`` until ``expiresAt``, in a column that must be unique,
/// before the request has an effect, and compare ``thumbprint`` with that of the session or token.
public struct DPoPProof: Sendable {
    /// The thumbprint of the key (`jkt`), 43 characters.
    public let thumbprint: String
    /// A digest of the key and of `jti`, the same for each copy of the proof.
    public let digest: Data
    /// When the proof is no longer accepted, in seconds since 1970.
    public let expiresAt: Double
}

/// Verifies proofs, with the checks of RFC 9449 section 4.3 in their order. Only ES256 is accepted.
public struct DPoPVerifier: Sendable {
    /// The JOSE names of the accepted algorithms.
    public static let algorithms = ["ES256"]
    /// The accepted deviation of the client's clock in seconds, in both directions.
    public static let clockSkew = BiometricRequestVerifier.clockSkew
    private static let type = "dpop+jwt"
    /// The maximum length of `jti` in bytes.
    private static let maximumNameLength = 256
    /// A genuine proof has fewer than 20 JSON separators.
    private static let maximumSeparators = 64
    /// The maximum length of a proof in bytes.
    private static let maximumLength = 4096

    /// nil if proofs need no nonce of this server.
    public let nonces: DPoPNonces?
    private let clock: WallClock

    /// Creates a verifier.
    ///
    /// - Parameter nonces: nil if proofs need no nonce of this server.
    public init(nonces: DPoPNonces? = nil) { self.init(nonces: nonces, clock: .system) }

    package init(nonces: DPoPNonces?, clock: WallClock) {
        (self.nonces, self.clock) = (nonces, clock)
    }

    /// Verifies the proof of a request.
    ///
    /// - Parameters:
    ///   - fields: The values of all fields `DPoP`.
    ///   - method: The request's method, in capital letters.
    ///   - url: The URL under which clients reach the resource. Query and fragment are ignored.
    ///   - accessToken: The access token of a request to a resource; nil for a request for tokens.
    /// - Throws: ``DPoPError``
    public func verify(
        _ fields: [String], method: String, url: String, accessToken: String?
    ) throws(DPoPError) -> DPoPProof {
        guard let text = fields.first else {
            throw DPoPError(.missing, "the request has no field DPoP")
        }
        guard fields.count == 1 else {
            throw DPoPError(.malformed, "the request has \(fields.count) fields DPoP")
        }
        let jws: ReceivedJWS
        do {
            jws = try ReceivedJWS(
                text, maximumLength: Self.maximumLength,
                maximumHeaderSeparators: Self.maximumSeparators,
                maximumPayloadSeparators: Self.maximumSeparators)
        } catch {
            throw DPoPError(.malformed, "the proof is invalid: \(error.detail)")
        }
        let claims = jws.payload
        guard let jti = claims["jti"]?.string, let htm = claims["htm"]?.string,
            let htu = claims["htu"]?.string, let iat = claims["iat"]?.number,
            (1...Self.maximumNameLength).contains(jti.utf8.count)
        else { throw DPoPError(.malformed, "jti, htm, htu or iat is missing or of a wrong form") }
        let key = try key(of: jws)
        guard htm == method else { throw DPoPError(.otherRequest, "htm is not \(method)") }
        guard let named = ComparableURL(htu), named == ComparableURL(url) else {
            throw DPoPError(.otherRequest, "htu is not \(url)")
        }
        if let nonces {
            guard let nonce = claims["nonce"]?.string, nonces.isValid(nonce) else {
                throw DPoPError(.nonce, "the proof needs the nonce of this server")
            }
        }
        guard abs(clock.timestamp - iat) <= Self.clockSkew else {
            throw DPoPError(.time, "iat is more than \(Int(Self.clockSkew)) seconds off")
        }
        let ath = accessToken.map { Base64URL.encode(MessageDigest(sha256: $0.utf8).bytes) }
        if let ath {
            guard let named = claims["ath"]?.string, constantTimeEqual(named.utf8, ath.utf8) else {
                throw DPoPError(.otherToken, "ath is not the digest of the access token")
            }
        }
        let thumbprint = key.thumbprint
        return DPoPProof(
            thumbprint: thumbprint,
            digest: Data(MessageDigest(sha256: "\(thumbprint).\(jti)".utf8).bytes),
            expiresAt: iat + Self.clockSkew + 1)
    }

    /// The key in the header, if it created the signature.
    private func key(of jws: ReceivedJWS) throws(DPoPError) -> PublicKey {
        guard jws.header["typ"]?.string == Self.type else {
            throw DPoPError(.malformed, "typ is not \(Self.type)")
        }
        guard let algorithm = jws.header["alg"]?.string, Self.algorithms.contains(algorithm) else {
            throw DPoPError(.malformed, "alg is not ES256")
        }
        guard let jwk = jws.header["jwk"].flatMap({ try? JSONWebKey($0) }) else {
            throw DPoPError(.malformed, "jwk is missing or no JSON Web Key")
        }
        if let objection = jwk.objection { throw DPoPError(.malformed, objection) }
        guard case .es256(let key) = jwk.publicKey else {
            throw DPoPError(.malformed, "the jwk is not a P-256 key")
        }
        guard
            DevicePublicKey.es256(key).isValid(jws.signature, for: Data(jws.signingInput.utf8))
        else { throw DPoPError(.signature, "the signature does not verify") }
        return key
    }
}

/// The nonces of this server (RFC 9449 section 8): a time and its authentication code, so that the
/// server stores none.
public struct DPoPNonces: Sendable {
    /// Seconds.
    static let lifetime = 300.0
    private static let timeBytes = 8

    private let key: Data
    private let clock: WallClock

    /// Creates the nonces of a server.
    ///
    /// - Parameter key: 32 random bytes, the same for all servers of one issuer.
    /// - Throws: `KeystoreError` with code `invalidInput` if `key` has another length: anybody could
    ///   make nonces with an empty key.
    public init(key: Data) throws { try self.init(key: key, clock: .system) }

    package init(key: Data, clock: WallClock) throws {
        guard key.count == 32 else {
            throw KeystoreError(
                operation: "make nonces", code: .invalidInput,
                reason: "the key has \(key.count) bytes", recovery: "Use a key of 32 bytes.")
        }
        (self.key, self.clock) = (key, clock)
    }

    /// A nonce for the next proofs.
    public var current: String {
        let time = withUnsafeBytes(of: UInt64(max(0, clock.seconds)).bigEndian) { Data($0) }
        return Base64URL.encode(time + code(of: time))
    }

    func isValid(_ nonce: String) -> Bool {
        guard let bytes = Base64URL.decode(nonce), bytes.count > Self.timeBytes else {
            return false
        }
        let time = Data(bytes.prefix(Self.timeBytes))
        guard constantTimeEqual(bytes.dropFirst(Self.timeBytes), code(of: time)) else {
            return false
        }
        let issuedAt = time.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return abs(clock.timestamp - Double(issuedAt)) <= Self.lifetime
    }

    private func code(of time: Data) -> Data {
        Data(HMAC<SHA256>.authenticationCode(for: time, using: SymmetricKey(data: key)))
    }
}

/// The reason why a proof is refused.
public typealias DPoPError = VerificationError<DPoPReason>

/// The reasons why a proof is refused.
public enum DPoPReason: String, Sendable {
    /// The request has no proof, and must have one.
    case missing
    /// Not one JWT of the right type and algorithm with all claims and a public key.
    case malformed
    /// The key in the header did not create the signature.
    case signature
    /// `htm` or `htu` is another request's.
    case otherRequest
    /// The nonce is missing, not this server's, or too old.
    case nonce
    /// `iat` is too far from this server's time.
    case time
    /// `ath` is missing or another access token's.
    case otherToken
    /// The proof is of another key than the token's.
    case otherKey
    /// The proof was used before.
    case replayed
}

extension DPoPError {
    /// The response of a token endpoint (RFC 9449 sections 5 and 8).
    public var oauthError: OAuthError {
        let error =
            switch code {
            case .nonce: "use_dpop_nonce"
            case .otherKey: "invalid_grant"
            case .missing, .malformed, .signature, .otherRequest, .time, .otherToken, .replayed:
                "invalid_dpop_proof"
            }
        return OAuthError(error, detail)
    }
}
