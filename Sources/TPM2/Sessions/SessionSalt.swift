internal import Crypto

/// The secret that only the caller and one TPM know, made for one session (TPM 2.0 Part 1 annex C.6.1: one-pass ECDH
/// with an ephemeral key, KDFe with the label `SECRET`).
struct SessionSalt {
    let secret: SymmetricKey
    /// The ephemeral key's point, for the TPM.
    let encrypted: [UInt8]

    /// - Parameter publicArea: Of the TPM's key. The caller must know that it is the TPM's: whoever has the private
    ///   half reads everything that the session protects.
    /// - Throws: ``TPMError`` of kind `unsupported` unless it is a P-256 decryption key with SHA-256.
    init(for publicArea: PublicArea) throws(TPMError) {
        guard let point = publicArea.p256Point, let x963 = point.p256Representation,
            publicArea.nameAlgorithm == .sha256, publicArea.attributes.contains([.decrypt, .restricted])
        else { throw .unsupported("a session can be salted to a P-256 storage key only") }
        let ephemeral = P256.KeyAgreement.PrivateKey()
        let shared: SharedSecret
        do {
            let key = try P256.KeyAgreement.PublicKey(x963Representation: x963)
            shared = try ephemeral.sharedSecretFromKeyAgreement(with: key)
        } catch {
            throw .malformed("the storage key's point is not on P-256")
        }
        let own = Array(ephemeral.publicKey.rawRepresentation)
        let ownPoint = ECCPoint(x: Array(own.prefix(32)), y: Array(own.suffix(32)))
        secret = KeyDerivation.kdfe(
            sharedSecret: shared, label: "SECRET", partyU: ownPoint.x, partyV: Array(x963[1..<33]), count: 32)
        encrypted = ownPoint.marshalled
    }
}
