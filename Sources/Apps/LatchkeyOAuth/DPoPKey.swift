package import FoundationEssentials
public import Latchkey
internal import LatchkeyJOSE

/// A hardware key to which a server binds tokens: DPoP (RFC 9449). It makes the proofs that requests
/// with these tokens need, and sends no request.
///
/// The private key cannot leave the hardware, so a stolen token is useless on another machine. A
/// proof does not prompt. It needs one signature of the hardware: a discrete TPM needs 50 to 600 ms.
public struct DPoPKey: Sendable {
    /// The signature algorithm of all proofs.
    package static let algorithm = "ES256"
    /// The JOSE type of a proof (section 4.2).
    package static let type = "dpop+jwt"

    package let key: HardwareKey
    package var id: KeyID { key.id }
    private let keystore: any Keystore
    let now: @Sendable () -> Date

    /// - Parameters:
    ///   - key: A key of `keystore` without user verification.
    ///   - now: The clock of `iat`.
    package init(
        _ key: HardwareKey, in keystore: any Keystore, now: @escaping @Sendable () -> Date
    ) {
        (self.key, self.keystore, self.now) = (key, keystore, now)
    }

    /// The SHA-256 thumbprint of the public key (RFC 7638), 43 characters of base64url: the value of
    /// `dpop_jkt` in an authorization request (RFC 9449 section 10).
    public var thumbprint: String { key.publicKey.thumbprint }

    /// Makes the value of the field `DPoP` for one request. Does not prompt.
    ///
    /// - Parameters:
    ///   - method: The HTTP method, for example `POST`.
    ///   - url: The URL of the request. The proof does not contain its query.
    ///   - accessToken: The access token of a request to a resource; nil for a request for tokens.
    ///   - nonce: The latest `DPoP-Nonce` of the server, if it sent one.
    /// - Throws: `KeystoreError`; `invalidInput` for a URL that is neither `https` nor on this
    ///   machine.
    public func proof(
        for method: String, _ url: String, accessToken: String? = nil, nonce: String? = nil
    ) async throws(CommonError) -> String {
        guard let endpoint = Endpoint(url) else {
            throw CommonError.invalidInput("the URL is neither https nor on this machine")
        }
        let claims = Claims(
            jti: RandomText.make(), htm: method,
            htu: endpoint.origin + endpoint.path.prefix { $0 != "?" },
            iat: Int(now().timeIntervalSince1970),
            ath: accessToken.map { Self.hash(of: $0) }, nonce: nonce)
        let input: String
        do {
            input = try JWS.signingInput(header: Header(jwk: JWK(key.publicKey)), payload: claims)
        } catch {
            throw CommonError.invalidInput("the proof can't be encoded as JSON")
        }
        let signature = try await keystore.sign(
            MessageDigest(sha256: input.utf8), with: key,
            for: PromptContext(reason: "use the session"), authorizedBy: NobodyPresent())
        return JWS.compact(input, signature: signature)
    }

    /// The claim `ath`: the SHA-256 digest of an access token in base64url.
    package static func hash(of accessToken: String) -> String {
        Base64URL.encode(MessageDigest(sha256: accessToken.utf8).bytes)
    }

    private struct Header: Encodable {
        let typ = DPoPKey.type
        let alg = DPoPKey.algorithm
        let jwk: JWK
    }

    /// Members that are nil are left out.
    private struct Claims: Encodable {
        let jti: String
        let htm: String
        let htu: String
        let iat: Int
        let ath: String?
        let nonce: String?
    }
}
