public import Latchkey
public import X509

extension Keystore {
    /// Makes a certificate signing request (PKCS #10, RFC 2986) for a key and signs it with the key: ECDSA over P-256
    /// with SHA-256. It has no attributes.
    ///
    /// The same for every backend: the request is put together here, and the hardware signs its digest.
    ///
    /// - Parameter subject: See `DistinguishedName(rfc4514:)` for one from text.
    /// - Throws: `KeystoreError`: what `sign(_:with:for:authorizedBy:)` throws.
    public func certificateSigningRequest(
        subject: DistinguishedName, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> CertificateSigningRequest {
        let signer = try HardwarePrivateKey(key, in: self, for: prompt, authorizedBy: presence)
        do {
            return try await CertificateSigningRequest(
                version: .v1, subject: subject, asyncPrivateKey: Certificate.PrivateKey(signer),
                attributes: CertificateSigningRequest.Attributes(), signatureAlgorithm: .ecdsaWithSHA256)
        } catch let error as KeystoreError {
            throw error
        } catch {
            throw .invalidInput("make a certificate request", "its subject can't be encoded (\(error))")
        }
    }
}
